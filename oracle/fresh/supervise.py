"""The first process of a fresh container: lay files, run one program after another, say what was seen.

Given to an interpreter by ``-c``. Two frames come down standard input (the driver's source, then the
job), one goes up standard output. It runs in whatever image a task has, so it needs Python 3.6 and the
standard library alone. It holds the key of the report; what it starts runs under another user id where
the job names one.
"""

import base64
import hashlib
import json
import os
import resource
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time

KEPT = 64 * 1024  # bytes of output that are kept, the last ones
MAX_RECORD = 1 << 20
MAX_RECORDS = 200000


def exactly(count):
    data = b""
    while len(data) < count:
        part = os.read(0, min(count - len(data), 1 << 20))
        if not part:
            os._exit(0)
        data += part
    return data


def receive():
    return json.loads(exactly(struct.unpack(">I", exactly(4))[0]).decode("utf-8"))


def send(message):
    body = json.dumps(message).encode("utf-8")
    data = memoryview(struct.pack(">I", len(body)) + body)
    while data:
        data = data[os.write(1, data) :]


# -- files ----------------------------------------------------------------------------------------


def lay(root, path, content):
    """Put a file below ``root``, following no link and replacing whatever is in its way."""
    here = root
    parts = path.split("/")
    for part in parts[:-1]:
        here = os.path.join(here, part)
        if os.path.islink(here) or (os.path.lexists(here) and not os.path.isdir(here)):
            os.unlink(here)
        if not os.path.lexists(here):
            os.mkdir(here, 0o755)
    target = os.path.join(here, parts[-1])
    mode = 0o755 if content.startswith(b"#!") else 0o644
    if os.path.lexists(target):
        found = os.lstat(target)
        if stat.S_ISREG(found.st_mode):
            mode = stat.S_IMODE(found.st_mode)
        drop(target)
    with open(target, "wb") as out:
        out.write(content)
    os.chmod(target, mode)


def drop(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def guard(root):
    """What is laid below ``root`` can be read and added to by other users, and not altered, moved or removed."""
    above = os.path.dirname(os.path.abspath(root))
    while above != "/":
        mode = os.stat(above).st_mode
        if not mode & stat.S_ISVTX:
            os.chmod(above, stat.S_IMODE(mode) & 0o7755 | 0o555)
        above = os.path.dirname(above)
    own(root, 0o1777)
    for here, directories, files in os.walk(root):
        for name in directories:
            own(os.path.join(here, name), 0o1777)
        for name in files:
            own(os.path.join(here, name), None)


def own(path, mode):
    """Root's, with ``mode``, or without others' right to write. A change copies a file, so what is so is left."""
    found = os.lstat(path)
    if found.st_uid != 0 or found.st_gid != 0:
        os.lchown(path, 0, 0)
    if stat.S_ISLNK(found.st_mode):
        return
    held = stat.S_IMODE(found.st_mode)
    wanted = (held & 0o755 | 0o444) if mode is None else mode
    if held != wanted:
        os.chmod(path, wanted)


# -- one program ----------------------------------------------------------------------------------


class Report:
    """What a driver says: numbered, and sealed with a key that was drawn for this run."""

    def __init__(self):
        self.key = os.urandom(32)
        self.buffer = bytearray()
        self.number = 0
        self.records, self.breaches = [], []
        self.load_error, self.finished, self.stage = None, False, "loading"

    def feed(self, data):
        self.buffer += data
        while len(self.buffer) >= 4 and not self.finished:
            size = struct.unpack_from(">I", self.buffer)[0]
            if size > MAX_RECORD:
                self.buffer = bytearray()
                self.breach("an oversized record")
                return
            if len(self.buffer) < 4 + size:
                return
            body = bytes(self.buffer[4 : 4 + size])
            del self.buffer[: 4 + size]
            try:
                self.accept(json.loads(body.decode("utf-8")))
            except Exception as error:
                self.breach("an unreadable record (%s)" % type(error).__name__)

    def accept(self, envelope):
        body, seal = envelope
        self.number += 1
        mac = hashlib.blake2b(b"%d:" % self.number + body.encode("utf-8"), key=self.key, digest_size=16)
        if seal != mac.hexdigest():
            self.breach("a record without the run's seal")
            return
        message = json.loads(body)
        if message["event"] == "end" and len(self.records) < MAX_RECORDS:
            self.stage = "running the tests"
            self.records.append({name: message[name] for name in ("id", "also", "outcome", "message")})
        elif message["event"] == "load_error":
            self.load_error = str(message["message"])
        elif message["event"] == "finish":
            self.finished, self.stage = True, "after the tests"

    def breach(self, what):
        if len(self.breaches) < 20:
            self.breaches.append(what)


def become(uid, limits):
    def start():
        os.umask(0o022)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, name), (value, value))
        if uid and os.geteuid() == 0:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)

    return start


def end_all(process):
    """Every process but this one is killed and waited for; without a PID namespace, the session of the program."""
    if os.getpid() == 1:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
    else:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()
    strays = 0
    while os.getpid() == 1:
        try:
            os.waitpid(-1, 0)
            strays += 1
        except ChildProcessError:
            break
    return strays


def run(stage, driver, limits):
    report, passed, argv = Report(), [], list(stage.get("argv") or ())
    environment = dict(os.environ)
    environment.update(stage["env"])
    output, spoken = os.pipe()
    listens, speaks = os.pipe()
    if "drive" in stage:
        conf = tempfile.TemporaryFile()
        conf.write(json.dumps(dict(stage["drive"], key=report.key.hex())).encode("utf-8"))
        conf.seek(0)
        passed = [conf.fileno(), speaks]
        argv = [stage["python"], "-s", "-S", "-c", driver] + [str(fd) for fd in passed]
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            argv,
            cwd=stage["cwd"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=spoken,
            stderr=spoken,
            pass_fds=passed,
            start_new_session=True,
            preexec_fn=become(stage.get("uid"), limits),
        )
    except (OSError, subprocess.SubprocessError) as error:
        return {"harness_error": "%s cannot be started in %s: %s" % (argv[0], stage["cwd"], error)}
    for fd in (spoken, speaks):
        os.close(fd)
    seen = watch(process, report, output, listens, started + stage["timeout_s"])
    strays = end_all(process)
    while hear(listens, report.feed):
        pass
    for fd in (output, listens):
        os.close(fd)
    code = process.returncode
    seen.update(
        records=report.records,
        breaches=report.breaches,
        load_error=report.load_error,
        finished=report.finished,
        stage=report.stage,
        exit="signal %d" % -code if code < 0 else "exit code %d" % code,
        strays=strays,
        wall_s=time.monotonic() - started,
        harness_error=None,
    )
    return seen


def watch(process, report, output, listens, until):
    """Until the program has ended or its time is over; what it left running does not count as the program."""
    kept, timed_out = bytearray(), False

    def keep(data):
        kept.extend(data)
        if len(kept) > 2 * KEPT:
            del kept[:-KEPT]

    heard = {output: keep, listens: report.feed}
    while process.poll() is None and not timed_out:
        left = until - time.monotonic()
        timed_out = left <= 0
        ready = select.select([0, *heard], [], [], max(0.0, min(left, 0.05)))[0]
        if 0 in ready and not os.read(0, 1):
            end_all(process)
            os._exit(0)
        for fd in ready:
            if fd in heard and not hear(fd, heard[fd]):
                del heard[fd]
    for _ in range(64):
        if not hear(output, keep):
            break
    return {"timed_out": timed_out, "stdout": base64.b64encode(bytes(kept)).decode("ascii"), "stderr": ""}


def hear(fd, take):
    """Take what is there now; whether there was anything."""
    data = os.read(fd, 1 << 16) if select.select([fd], [], [], 0)[0] else b""
    if data:
        take(data)
    return bool(data)


def collect(paths, limit):
    """Regular files by path, at most ``limit`` bytes each; no link is followed."""
    found = {}
    for path in paths:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                found[path] = base64.b64encode(os.read(fd, limit)).decode("ascii")
        finally:
            os.close(fd)
    return found


def grade(driver, job):
    seen = {"harness_error": "the job has no stage"}
    for stage in job["stages"]:
        for path in stage["remove"]:
            drop(path)
        for root, files in stage["lay"].items():
            os.makedirs(root, exist_ok=True)
            for path, content in files.items():
                lay(root, path, base64.b64decode(content))
        for path in stage["mkdir"]:
            os.makedirs(path, exist_ok=True)
        if stage.get("uid") and os.geteuid() == 0:
            guard(stage["guard"])
        seen = run(stage, driver, job["limits"])
        if seen["harness_error"]:
            break
    if not seen.get("harness_error"):
        seen["collected"] = collect(job["collect"], KEPT)
    return dict(seen, status="graded")


def main():
    sources, job = receive(), receive()
    try:
        reply = grade(sources["drive.py"], job)
    except Exception as error:
        reply = {"status": "failed", "why": "%s: %s" % (type(error).__name__, error)}
    send(reply)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
