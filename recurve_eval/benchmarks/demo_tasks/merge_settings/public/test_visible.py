import unittest

from solution import merge_settings


class Visible(unittest.TestCase):
    def test_replace_and_add(self):
        self.assertEqual(merge_settings({"a": 1, "b": 2}, {"b": 3, "c": 4}), {"a": 1, "b": 3, "c": 4})

    def test_nested(self):
        base = {"db": {"host": "localhost", "port": 5432}}
        self.assertEqual(merge_settings(base, {"db": {"port": 6000}}), {"db": {"host": "localhost", "port": 6000}})

    def test_remove(self):
        self.assertEqual(merge_settings({"a": 1, "b": 2}, {"a": None}), {"b": 2})
