from _hold import hold, refuses


def check(place):
    from ledger_samples import sample_row
    from recurve_eval.ledger import Ledger, read_rows

    from recurve_eval.errors import Refused
    Ledger(place).seal(sample_row(1))
    return refuses(Refused, Ledger(place).seal, sample_row(1))


hold(check)
