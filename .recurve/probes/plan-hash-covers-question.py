from _hold import STUDY, hold, plans, refuses


def check(place):
    from recurve_eval.plan import Plan

    condition, plan = plans()

    other = Plan([condition()], {**STUDY, "primary": {"baseline": "A0", "treatment": "A3"}}, {"alpha": 0.05})
    return plan(condition()).hash != other.hash


hold(check)
