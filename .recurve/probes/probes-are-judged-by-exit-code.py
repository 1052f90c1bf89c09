from _hold import hold, refuses


def check(place):
    from recurve_eval.gates import probes
    from recurve_eval.gates.places import Ran
    codes = [probes._verdict(Ran(code, b"GREEN", 0.0), 1.0)[0] for code in (0, 1, 2, 137, None)]
    return codes == ["GREEN", "RED", "BROKEN", "BROKEN", "BROKEN"]


hold(check)
