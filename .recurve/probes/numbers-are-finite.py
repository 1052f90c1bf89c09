from _hold import hold, refuses


def check(place):
    from ledger_samples import sample_row
    from recurve_eval.ledger import Ledger, read_rows

    from recurve_eval.rows import InvalidRow, validate
    row = sample_row(1)
    row["usage"]["wall_s"] = float("inf")
    return refuses(InvalidRow, validate, row)


hold(check)
