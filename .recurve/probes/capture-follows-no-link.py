from _hold import hold, refuses


def check(place):
    import os
    from recurve_eval.capture import capture_file

    (place / "solution.py").symlink_to("/etc/passwd")
    return capture_file(place, "solution.py", 10**6).status == "not_file"


hold(check)
