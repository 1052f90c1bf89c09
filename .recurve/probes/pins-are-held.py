from _hold import hold, plans, refuses


def check(place):
    condition, plan = plans()

    from recurve_eval import study
    from recurve_eval.errors import Drift
    return refuses(Drift, study.hold_to_pins, plan(condition()), {"dataset_hash": "other"}, [])


hold(check)
