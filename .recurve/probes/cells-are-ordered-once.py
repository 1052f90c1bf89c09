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

    first, again = (plan(condition(), condition("A3", index=1)).cells for _ in range(2))
    return first == again and len({c.cell_id for c in first}) == 4


hold(check)
