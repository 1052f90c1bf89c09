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
def answers():
    return library.answers(CALLS)


def check(case, name, expected, function, *arguments):
    number = len(CALLS)
    CALLS.append([function, list(arguments)])

    def method(self):
        self.assertEqual(answers()[number], ["gives", expected])

    setattr(case, name, method)


class Nullary(unittest.TestCase):
    def test_identity(self):
        self.assertEqual(library.compose(), {})


class Unary(unittest.TestCase):
    def test_listed_fixed_points(self):
        self.assertEqual(library.compose({0: 0, 1: 2, 2: 1, 7: 7}), {1: 2, 2: 1})


class Binary(unittest.TestCase):
    pass


class Ternary(unittest.TestCase):
    pass


class Arrange(unittest.TestCase):
    def test_more_items_than_positions(self):
        self.assertEqual(library.arrange({0: 2, 2: 0}, "abcdef"), list("cbadef"))

    def test_nothing(self):
        self.assertEqual(library.arrange({}, ()), [])

    def test_too_few_items(self):
        with self.assertRaises(ValueError):
            library.arrange({0: 3, 3: 0}, "abc")

    def test_items_are_left_alone(self):
        items = ["a", "b", "c"]
        library.arrange({0: 1, 1: 0}, items)
        self.assertEqual(items, ["a", "b", "c"])


class Inverse(unittest.TestCase):
    pass


class Apply(unittest.TestCase):
    pass


class Rotation(unittest.TestCase):
    def test_repeated(self):
        with self.assertRaises(ValueError):
            library.rotation(0, 1, 0)


class Canonical(unittest.TestCase):
    def test_listed_fixed_points(self):
        self.assertEqual(library.canonical({3: 3, 0: 1, 1: 0}), {0: 1, 1: 0})

    def test_leaves_its_positions(self):
        with self.assertRaises(ValueError):
            library.canonical({0: 1})

    def test_two_to_one(self):
        with self.assertRaises(ValueError):
            library.canonical({0: 1, 1: 0, 2: 1})


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
