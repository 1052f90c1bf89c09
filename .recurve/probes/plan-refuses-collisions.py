from _hold import hold, plans, refuses


def check(place):
    condition, plan = plans()

    from recurve_eval.errors import ConfigError
    return refuses(ConfigError, plan, condition(), condition(wall=9.0))


hold(check)
