import copy
import unittest

from solution import build_order


class BuildOrder(unittest.TestCase):
    def test_nothing_to_build(self):
        self.assertEqual(build_order({}), [])

    def test_smallest_at_each_position(self):
        # Once "b" is built, "a" becomes possible and comes before "c".
        self.assertEqual(build_order({"a": ["b"], "c": [], "b": []}), ["b", "a", "c"])

    def test_not_by_level(self):
        needs = {"a": ["m"], "b": ["a"], "m": [], "z": [], "n": []}
        self.assertEqual(build_order(needs), ["m", "a", "b", "n", "z"])

    def test_a_need_does_not_jump_the_queue(self):
        self.assertEqual(build_order({"a": ["z"], "b": [], "z": []}), ["b", "z", "a"])

    def test_names_that_are_only_needed(self):
        self.assertEqual(build_order({"app": ["zlib", "abc"]}), ["abc", "zlib", "app"])

    def test_named_twice(self):
        self.assertEqual(build_order({"app": ["lib", "lib"], "lib": []}), ["lib", "app"])

    def test_diamond(self):
        self.assertEqual(build_order({"d": ["b", "c"], "b": ["a"], "c": ["a"]}), ["a", "b", "c", "d"])

    def test_circles(self):
        for needs in ({"a": ["a"]}, {"a": ["b"], "b": ["c"], "c": ["a"], "x": []}, {"x": [], "y": ["x", "z"], "z": ["y"]}):
            with self.subTest(needs=needs), self.assertRaises(ValueError):
                build_order(needs)

    def test_upper_case_comes_first(self):
        self.assertEqual(build_order({"b": [], "B": [], "a": [], "_": []}), ["B", "_", "a", "b"])

    def test_long_chain(self):
        names = [f"p{n:05}" for n in range(3000)]
        needs = {name: [before] for before, name in zip(names, names[1:])}
        self.assertEqual(build_order(dict(reversed(needs.items()))), names)

    def test_long_chain_against_the_alphabet(self):
        names = [f"p{n:05}" for n in range(3000, 0, -1)]
        needs = {name: [before] for before, name in zip(names, names[1:])}
        self.assertEqual(build_order(needs), names)

    def test_the_argument_is_left_alone(self):
        needs = {"app": ["lib", "core"], "lib": ["core"]}
        before = copy.deepcopy(needs)
        build_order(needs)
        self.assertEqual(needs, before)
