from _hold import hold, refuses


def check(place):
    from recurve_eval.domain import OracleJob
    from recurve_eval.errors import QuarantineError
    return refuses(QuarantineError, OracleJob, "t", {"solution.py": b""}, {}, "unittest", {}, ("x",))


hold(check)
