from _hold import hold, refuses


def check(place):
    from recurve_eval.leak import HeldOutScanner
    secret = b"    assert candidate([3, 1, 2]) == [1, 2, 3], 'sorted'"
    scanner = HeldOutScanner({"hidden.py": secret + b"\n"}, {})
    (place / "notes").write_bytes(b"x = 1\n")
    clean = scanner.scan(place)
    (place / "notes").write_bytes(b"# " + secret.strip() + b"\n")

    found = scanner.scan(place)
    return found and not any("candidate" in line for line in found)


hold(check)
