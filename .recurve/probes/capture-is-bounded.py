from _hold import hold, refuses


def check(place):
    import os
    from recurve_eval.capture import capture_file

    (place / "solution.py").write_bytes(b"x" * 100)
    got = capture_file(place, "solution.py", 99)
    return got.status == "too_large" and got.content is None


hold(check)
