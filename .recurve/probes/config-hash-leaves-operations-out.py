from _hold import hold, refuses


def check(place):
    from recurve_eval.config import verdict_part
    one = {"seed": 0, "run": {"workers": 1}, "cell_id": None}
    two = {"seed": 0, "run": {"workers": 9}, "cell_id": "x"}
    return verdict_part(one) == verdict_part(two) != verdict_part({**two, "seed": 1})


hold(check)
