from _hold import hold, refuses


def check(place):
    from recurve_eval.domain import Usage
    known = Usage(tokens_in=5, tokens_out=5, cost_usd=0.5, steps=1)
    return (known + Usage()).tokens is None and (known + Usage()).cost_usd is None and (known + known).tokens == 20


hold(check)
