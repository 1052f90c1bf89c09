from _hold import hold, refuses


def check(place):
    from recurve_eval.mutation import mutants as m
    files = {"s.py": b"def f(a, b):\n    return a + b if a < b else a - b * 2\n"}
    first, again = (m.mutants(files, 5, 3, "t") for _ in range(2))
    return first == again and len(first) == 5 and all(x.files != files for x in first)


hold(check)
