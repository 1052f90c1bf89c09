from _hold import hold, refuses


def check(place):
    from recurve_eval.plan import select_tasks
    known = [f"t{n}" for n in range(200)]
    small, large = (set(select_tasks(known, {"n": n, "seed": 7})) for n in (20, 60))
    return small < large and small != set(select_tasks(known, {"n": 20, "seed": 8}))


hold(check)
