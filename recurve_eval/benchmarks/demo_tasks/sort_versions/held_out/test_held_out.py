import random
import unittest

from solution import sort_versions

ORDERED = [
    "0.0.9", "0.10.0", "1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-10.a", "1.0.0--", "1.0.0-RC", "1.0.0-alpha",
    "1.0.0-alpha.1", "1.0.0-alpha.1.0", "1.0.0-alpha.2", "1.0.0-alpha.11", "1.0.0-alpha.beta", "1.0.0-beta",
    "1.0.0-rc.1", "1.0.0", "1.0.1-a", "1.0.1", "1.9.0", "1.10.0", "1.10.2", "9.0.0", "10.0.0",
]  # fmt: skip


class SortVersions(unittest.TestCase):
    def test_the_whole_order(self):
        for seed in range(20):
            shuffled = ORDERED[:]
            random.Random(seed).shuffle(shuffled)
            self.assertEqual(sort_versions(shuffled), ORDERED)

    def test_prerelease_before_release(self):
        self.assertEqual(sort_versions(["1.0.0", "1.0.0-rc.1"]), ["1.0.0-rc.1", "1.0.0"])

    def test_prerelease_numbers(self):
        self.assertEqual(sort_versions(["1.0.0-rc.10", "1.0.0-rc.9"]), ["1.0.0-rc.9", "1.0.0-rc.10"])

    def test_numbers_before_words(self):
        self.assertEqual(sort_versions(["1.0.0-a", "1.0.0-99"]), ["1.0.0-99", "1.0.0-a"])

    def test_equal_versions_keep_their_order(self):
        self.assertEqual(sort_versions(["v1.0.0", "0.1.0", "1.0.0", "v1.0.0"]), ["0.1.0", "v1.0.0", "1.0.0", "v1.0.0"])
        self.assertEqual(sort_versions(["1.0.0-rc.7", "1.0.0-rc.07"]), ["1.0.0-rc.7", "1.0.0-rc.07"])
        self.assertEqual(sort_versions(["1.0.0-rc.07", "1.0.0-rc.7"]), ["1.0.0-rc.07", "1.0.0-rc.7"])

    def test_large_numbers(self):
        self.assertEqual(sort_versions(["1.0.100000000000000000001", "1.0.100000000000000000000"])[0][-1], "0")

    def test_nothing_to_sort(self):
        self.assertEqual(sort_versions([]), [])

    def test_the_argument_is_left_alone(self):
        versions = ["2.0.0", "1.0.0"]
        sort_versions(versions)
        self.assertEqual(versions, ["2.0.0", "1.0.0"])

    def test_not_versions(self):
        for text in ("", "1", "1.0", "1.0.0.0", "1.0.x", "01.0.0", "1.0.0-", "1.0.0-a..b", "1.0.0-a_b", "vv1.0.0", " 1.0.0", "1.0.0\n", "1.0.-1", "\u0661.0.0", "1.0.0-\u00e9"):
            with self.subTest(text=text), self.assertRaises(ValueError):
                sort_versions(["1.0.0", text])
