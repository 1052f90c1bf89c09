from _hold import hold, refuses


def check(place):
    from recurve_eval.domain import AgentRun, Submission
    from recurve_eval.errors import QuarantineError
    return refuses(QuarantineError, Submission, object(), ()) and refuses(QuarantineError, AgentRun, (), None)


hold(check)
