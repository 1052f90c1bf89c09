from _hold import hold, plans, refuses


def check(place):
    condition, plan = plans()

    from recurve_eval.errors import Drift
    from recurve_eval.plan import freeze
    p = plan(condition())
    freeze(p, place / "run", {}, {"environments": {}})
    text = (place / "run/plan.yaml").read_text()
    (place / "run/plan.yaml").write_text(text.replace("experiment: s", "experiment: t"))
    return refuses(Drift, freeze, p, place / "run", {}, {"environments": {}})


hold(check)
