import unittest

from solution import paginate


class Visible(unittest.TestCase):
    def test_first_page(self):
        expected = {"items": ["a", "b"], "page": 1, "pages": 3, "first": 1, "last": 2, "more": True}
        self.assertEqual(paginate(["a", "b", "c", "d", "e"], 1, 2), expected)

    def test_last_page_is_short(self):
        expected = {"items": ["e"], "page": 3, "pages": 3, "first": 5, "last": 5, "more": False}
        self.assertEqual(paginate(["a", "b", "c", "d", "e"], 3, 2), expected)

    def test_page_too_high(self):
        with self.assertRaises(ValueError):
            paginate(["a"], 2, 2)
