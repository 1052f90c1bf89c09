import copy
import unittest

from solution import merge_settings


class MergeSettings(unittest.TestCase):
    def test_falsy_values_override(self):
        base = {"a": True, "b": 7, "c": "x", "d": [1]}
        override = {"a": False, "b": 0, "c": "", "d": []}
        self.assertEqual(merge_settings(base, override), override)

    def test_three_levels(self):
        base = {"a": {"b": {"c": 1, "d": 2}, "e": 3}}
        self.assertEqual(merge_settings(base, {"a": {"b": {"d": 9}}}), {"a": {"b": {"c": 1, "d": 9}, "e": 3}})

    def test_dict_against_something_else(self):
        self.assertEqual(merge_settings({"a": {"b": 1}}, {"a": 5}), {"a": 5})
        self.assertEqual(merge_settings({"a": 5}, {"a": {"b": 1}}), {"a": {"b": 1}})
        self.assertEqual(merge_settings({"a": [1]}, {"a": {}}), {"a": {}})
        self.assertEqual(merge_settings({"a": {"b": 1}}, {"a": {}}), {"a": {"b": 1}})
        self.assertEqual(merge_settings({"a": {"b": 1}}, {"a": []}), {"a": []})

    def test_none_removes_at_any_depth(self):
        self.assertEqual(merge_settings({"a": {"b": 1, "c": 2}}, {"a": {"b": None}, "z": None}), {"a": {"c": 2}})
        self.assertEqual(merge_settings({"a": {"b": 1}}, {"a": {"b": None}}), {"a": {}})

    def test_none_in_a_dict_that_is_new(self):
        self.assertEqual(merge_settings({}, {"a": {"b": None, "c": {"d": None}}}), {"a": {"c": {}}})
        self.assertEqual(merge_settings({"a": 1}, {"a": {"b": None, "c": 2}}), {"a": {"c": 2}})

    def test_none_in_base_stays(self):
        self.assertEqual(merge_settings({"a": None, "b": None}, {"b": 1}), {"a": None, "b": 1})

    def test_nothing_to_merge(self):
        self.assertEqual(merge_settings({}, {}), {})
        self.assertEqual(merge_settings({"a": {"b": [1]}}, {}), {"a": {"b": [1]}})

    def test_order(self):
        merged = merge_settings({"b": 1, "a": 2, "c": 3}, {"z": 0, "a": 9, "y": 0})
        self.assertEqual(list(merged), ["b", "a", "c", "z", "y"])

    def test_the_arguments_are_left_alone(self):
        base, override = {"a": {"b": 1}, "l": [1]}, {"a": {"c": {"d": 2}}, "n": None}
        before = copy.deepcopy((base, override))
        merge_settings(base, override)
        self.assertEqual((base, override), before)

    def test_the_result_shares_nothing(self):
        base, override = {"keep": {"x": [1]}, "a": {"b": 1}}, {"a": {"new": {"y": [2]}}, "l": [[3]]}
        before = copy.deepcopy((base, override))
        merged = merge_settings(base, override)
        merged["keep"]["x"].append(0)
        merged["a"]["new"]["y"].append(0)
        merged["l"][0].append(0)
        merged["a"]["b"] = 0
        self.assertEqual((base, override), before)
