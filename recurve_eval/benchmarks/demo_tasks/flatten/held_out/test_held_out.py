import unittest

from solution import flatten


class Flatten(unittest.TestCase):
    def test_empty_lists(self):
        self.assertEqual(flatten([]), [])
        self.assertEqual(flatten([[], [[]], [[], [[]]]]), [])

    def test_strings_stay_whole(self):
        self.assertEqual(flatten(["ab", ["cd", [b"ef"]]]), ["ab", "cd", b"ef"])

    def test_falsy_items_stay(self):
        self.assertEqual(flatten([0, [None, ["", [False]]]]), [0, None, "", False])

    def test_tuples_are_taken_apart(self):
        self.assertEqual(flatten((1, [2, (3, (4,))])), [1, 2, 3, 4])

    def test_other_containers_stay(self):
        self.assertEqual(flatten([{"a": [1]}, [{2}]]), [{"a": [1]}, {2}])

    def test_thousands_of_levels(self):
        value = ["end"]
        for level in range(5000):
            value = [level, value]
        self.assertEqual(flatten(value), [*range(4999, -1, -1), "end"])

    def test_every_call_starts_afresh(self):
        self.assertEqual(flatten([1, [2]]), [1, 2])
        self.assertEqual(flatten([3, [4]]), [3, 4])

    def test_the_argument_is_left_alone(self):
        value = [1, [2, [3]], []]
        flat = flatten(value)
        flat.append(9)
        self.assertEqual(value, [1, [2, [3]], []])

    def test_only_lists_and_tuples(self):
        for value in ("ab", {"a": 1}, {1}, None, 0):
            with self.subTest(value=value), self.assertRaises(TypeError):
                flatten(value)
