from _hold import hold, refuses


def check(place):
    from recurve_eval.errors import SpendRefused
    from recurve_eval.spend import SpendLedger
    spend = SpendLedger(place, 1.0)

    spend.reserve("a", 1, 0.9)
    spend.settle("a", 1, None, "unknown")
    return spend.totals().settled == 0.9


hold(check)
