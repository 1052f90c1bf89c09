import unittest

from solution import sort_versions


class Visible(unittest.TestCase):
    def test_releases(self):
        self.assertEqual(sort_versions(["2.0.0", "1.2.0", "1.1.9"]), ["1.1.9", "1.2.0", "2.0.0"])

    def test_numbers_not_text(self):
        self.assertEqual(sort_versions(["1.10.0", "1.9.0"]), ["1.9.0", "1.10.0"])

    def test_not_a_version(self):
        with self.assertRaises(ValueError):
            sort_versions(["latest"])
