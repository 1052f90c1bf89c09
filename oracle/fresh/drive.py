"""Runs a repository's own test suite and reports each test on a channel of its own, never by printing.

Started by the supervisor as ``python -s -S -c SOURCE CONF_FD CHANNEL_FD``. Nothing of the work is on the
path until the channel is bound. Python 3.6 and the standard library, and pytest where the suite is one.
"""

import hashlib
import json
import os
import struct
import sys


def opened(conf, fd):
    """``tell(event, **fields)``: everything that it needs is bound here, before the work can be imported."""
    os.set_inheritable(fd, False)
    # One hash object in one closure holds the key, and nothing holds it as bytes.
    keyed = hashlib.blake2b(key=bytes.fromhex(conf.pop("key")), digest_size=16)
    dumps, write, getpid, pack = json.JSONEncoder().encode, os.write, os.getpid, struct.pack
    owner, count = os.getpid(), [0]

    def tell(event, **fields):
        if getpid() != owner:
            return
        count[0] += 1
        body = dumps(dict(fields, event=event))
        mac = keyed.copy()
        mac.update(b"%d:" % count[0] + body.encode("utf-8"))
        data = dumps([body, mac.hexdigest()]).encode("utf-8")
        data = pack(">I", len(data)) + data
        while data:
            data = data[write(fd, data) :]

    return tell


class PytestReporter(object):
    """A pytest plugin: one record a test, made of the reports of its phases."""

    def __init__(self, tell):
        self.tell = tell
        self.phases = {}

    def pytest_runtest_logreport(self, report):
        self.phases.setdefault(report.nodeid, []).append(report)
        if report.when == "teardown":
            phases = self.phases.pop(report.nodeid)
            outcome, message = self.outcome(phases)
            self.tell("end", id=report.nodeid, also=[], outcome=outcome, message=message[:500])

    @staticmethod
    def outcome(phases):
        for report in phases:
            if report.outcome == "failed":
                text = str(report.longrepr or "").strip().splitlines()
                return ("failed" if report.when == "call" else "error"), (text[-1] if text else report.when)
        for report in phases:
            if report.outcome == "skipped":
                expected = hasattr(report, "wasxfail")
                return ("passed" if expected else "skipped"), str(getattr(report, "wasxfail", "") or "")
        called = any(report.when == "call" and report.outcome == "passed" for report in phases)
        return ("passed" if called else "error"), ""


def run_pytest(conf, tell):
    import pytest

    return int(pytest.main(conf["arguments"], plugins=[PytestReporter(tell)]))


def run_unittest(conf, tell):
    """Any program that ends in unittest's text runner, such as ``-m unittest`` or a project's own script."""
    import runpy
    import unittest

    class Result(unittest.TextTestResult):
        def startTest(self, test):
            self.fate = ("passed", "")
            unittest.TextTestResult.startTest(self, test)

        def stopTest(self, test):
            unittest.TextTestResult.stopTest(self, test)
            kind = type(test)
            name = getattr(test, "_testMethodName", str(test))
            also = [test.id(), str(test), test.shortDescription() or ""]
            ours = "%s (%s.%s)" % (name, kind.__module__, kind.__qualname__)
            tell("end", id=ours, also=also, outcome=self.fate[0], message=self.fate[1][:500])

        def addError(self, test, err):
            self.fate = ("error", repr(err[1]))
            unittest.TextTestResult.addError(self, test, err)

        def addFailure(self, test, err):
            self.fate = ("failed", repr(err[1]))
            unittest.TextTestResult.addFailure(self, test, err)

        def addSubTest(self, test, subtest, err):
            if err is not None:
                self.fate = ("failed", repr(err[1]))
            unittest.TextTestResult.addSubTest(self, test, subtest, err)

        def addSkip(self, test, reason):
            self.fate = ("skipped", str(reason))
            unittest.TextTestResult.addSkip(self, test, reason)

        def addUnexpectedSuccess(self, test):
            self.fate = ("failed", "unexpected success")
            unittest.TextTestResult.addUnexpectedSuccess(self, test)

    unittest.TextTestRunner.resultclass = Result
    command = conf["command"]
    module = command[0] == "-m"
    sys.argv = command[1:] if module else list(command)
    sys.argv += conf["arguments"]
    sys.path.insert(0, os.getcwd() if module else os.path.dirname(os.path.abspath(command[0])))
    try:
        if module:
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(command[0], run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    return 0


def main():
    conf_fd, channel = int(sys.argv[1]), int(sys.argv[2])
    with os.fdopen(conf_fd, "rb") as stream:
        conf = json.loads(stream.read().decode("utf-8"))
    tell = opened(conf, channel)
    del stream, conf_fd
    sys.path[:] = [entry for entry in sys.path if entry]
    sys.argv[:] = [""]
    try:
        import site

        site.main()
        code = {"pytest": run_pytest, "unittest": run_unittest}[conf["runner"]](conf, tell)
    except BaseException as error:
        tell("load_error", message="%s: %s" % (type(error).__name__, error))
        code = 1
    tell("finish", code=code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


main()
