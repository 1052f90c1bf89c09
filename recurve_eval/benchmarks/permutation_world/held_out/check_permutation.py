# Images as tuples: p[i] is where position i goes. Expected values come from these alone.
import functools
import itertools
import unittest

import graded_permutation as library

FOUR = tuple(itertools.permutations(range(4)))


def sparse(images):
    return {position: image for position, image in enumerate(images) if position != image}


def after(outer, inner):
    return tuple(outer[image] for image in inner)


def named(*permutations):
    return "test_" + "_".join("".join(map(str, images)) for images in permutations)


CALLS = []


@functools.cache
def asked():
    try:
        return library.answers(CALLS), None
    except Exception as error:
        return None, error


def answers():
    found, error = asked()
    if error is not None:
        raise error
    return found


def check(case, name, expected, function, *arguments, answer="gives"):
    number = len(CALLS)
    CALLS.append([function, list(arguments)])

    def method(self):
        self.assertEqual(answers()[number], [answer, expected])

    setattr(case, name, method)


class Nullary(unittest.TestCase):
    pass


class Unary(unittest.TestCase):
    pass


class Binary(unittest.TestCase):
    pass


class Ternary(unittest.TestCase):
    pass


class Arrange(unittest.TestCase):
    pass


class Inverse(unittest.TestCase):
    pass


class Apply(unittest.TestCase):
    pass


class Rotation(unittest.TestCase):
    pass


class Canonical(unittest.TestCase):
    pass


check(Nullary, "test_identity", {}, "compose")
check(Unary, "test_listed_fixed_points", {1: 2, 2: 1}, "compose", {0: 0, 1: 2, 2: 1, 7: 7})
check(Arrange, "test_more_items_than_positions", list("cbadef"), "arrange", {0: 2, 2: 0}, "abcdef")
check(Arrange, "test_nothing", [], "arrange", {}, ())
check(Arrange, "test_too_few_items", "ValueError", "arrange", {0: 3, 3: 0}, "abc", answer="raises")
check(Arrange, "test_items_are_left_alone", ["a", "b", "c"], "items after arrange", {0: 1, 1: 0}, ["a", "b", "c"])
check(Rotation, "test_repeated", "ValueError", "rotation", 0, 1, 0, answer="raises")
check(Canonical, "test_listed_fixed_points", {0: 1, 1: 0}, "canonical", {3: 3, 0: 1, 1: 0})
check(Canonical, "test_leaves_its_positions", "ValueError", "canonical", {0: 1}, answer="raises")
check(Canonical, "test_two_to_one", "ValueError", "canonical", {0: 1, 1: 0, 2: 1}, answer="raises")

for p in FOUR:
    check(Unary, named(p), sparse(p), "compose", sparse(p))
    check(Inverse, named(p), sparse(tuple(map(p.index, range(4)))), "inverse", sparse(p))
    check(Arrange, named(p), [p.index(place) for place in range(4)], "arrange", sparse(p), [0, 1, 2, 3])
    for q in FOUR:
        check(Binary, named(p, q), sparse(after(p, q)), "compose", sparse(p), sparse(q))
    for position in range(6):
        check(Apply, f"{named(p)}_at_{position}", (*p, 4, 5)[position], "apply", sparse(p), position)

for k in range(24):
    p, q, r = FOUR[k], FOUR[(7 * k + 5) % 24], FOUR[(11 * k + 13) % 24]
    check(Ternary, named(p, q, r), sparse(after(p, after(q, r))), "compose", sparse(p), sparse(q), sparse(r))

for cycle in ((), (2,), (0, 3), (0, 1, 2), (3, 1, 0), (0, 2, 1, 3), (5, 9, 7)):
    expected = {a: b for a, b in zip(cycle, cycle[1:] + cycle[:1]) if a != b}
    check(Rotation, "test_" + ("_".join(map(str, cycle)) or "none"), expected, "rotation", *cycle)
