from _hold import hold, plans, refuses


def check(place):
    condition, plan = plans()

    return plan(condition()).hash != plan(condition(wall=2.0)).hash == plan(condition(wall=2.0)).hash


hold(check)
