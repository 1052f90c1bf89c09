from _hold import hold, refuses


def check(place):
    from recurve_eval.errors import SpendRefused
    from recurve_eval.spend import SpendLedger
    spend = SpendLedger(place, 1.0)

    spend.reserve("a", 1, 0.9)
    return refuses(SpendRefused, spend.reserve, "b", 1, 0.2)


hold(check)
