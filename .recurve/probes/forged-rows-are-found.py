from _hold import hold, refuses


def check(place):
    from ledger_samples import sample_row
    from recurve_eval.ledger import Ledger, read_rows

    from recurve_eval.errors import Drift
    ledger = Ledger(place)
    for n in range(3):
        ledger.seal(sample_row(n))
    path = place / "results.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    forged = lines[0].replace(b'"seed":0', b'"seed":7')
    path.write_bytes(b"".join([forged, *lines[1:]]))
    return forged != lines[0] and refuses(Drift, lambda: list(read_rows(place)))


hold(check)
