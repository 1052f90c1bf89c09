from _hold import hold, plans, refuses


def check(place):
    condition, plan = plans()

    first, again = (plan(condition(), condition("A3", index=1)).cells for _ in range(2))
    return first == again and len({c.cell_id for c in first}) == 4


hold(check)
