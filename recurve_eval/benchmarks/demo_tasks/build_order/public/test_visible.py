import unittest

from solution import build_order


class Visible(unittest.TestCase):
    def test_chain(self):
        self.assertEqual(build_order({"app": ["lib"], "lib": ["core"], "core": []}), ["core", "lib", "app"])

    def test_independent(self):
        self.assertEqual(build_order({"b": [], "a": [], "c": []}), ["a", "b", "c"])

    def test_circle(self):
        with self.assertRaises(ValueError):
            build_order({"a": ["b"], "b": ["a"]})
