from _hold import hold, refuses


def check(place):
    from analysis_samples import row
    from recurve_eval.analysis import pairing
    from recurve_eval.analysis.records import records_of
    from recurve_eval.stats import ShapeError

    rows = [row("t1"), row("t1", plan="f" * 64), row("t1", "A1")]
    return refuses(ShapeError, pairing.pair, records_of(rows), "A0", "A1")


hold(check)
