from _hold import hold, refuses


def check(place):
    from recurve_eval.domain import OracleJob, Submission
    from recurve_eval.errors import QuarantineError
    submission = Submission.of_reference("canonical", {"solution.py": b"x"})
    return refuses(QuarantineError, OracleJob, "t", submission, {}, "unittest", {}, ())


hold(check)
