from _hold import hold, refuses


def check(place):
    from recurve_eval.domain import Coordinates
    from recurve_eval.plan import Condition, Plan
    def condition(arm="A0", wall=1.0, index=0, tasks=("a", "b")):
        counted = {"budget": {"wall_s": wall}, "arm": arm}
        at = Coordinates("demo", "", "m", "scripted", arm, "small", 0)
        return Condition(index, counted, counted, {"benchmark": {"dataset_hash": "d"}}, at, tasks, False, True)
    STUDY = {"name": "s", "primary": None, "contrasts": [], "noise_floor": None}
    def plan(*conditions):
        return Plan(conditions, STUDY, {"alpha": 0.05})

    from recurve_eval.errors import ConfigError
    return refuses(ConfigError, plan, condition(), condition(wall=9.0))


hold(check)
