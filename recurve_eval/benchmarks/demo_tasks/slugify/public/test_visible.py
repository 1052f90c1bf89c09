import unittest

from solution import slugify


class Visible(unittest.TestCase):
    def test_words(self):
        self.assertEqual(slugify("Hello, World!"), "hello-world")

    def test_digits(self):
        self.assertEqual(slugify("Top 10 Tips"), "top-10-tips")

    def test_limit(self):
        self.assertEqual(slugify("a quick brown fox", limit=9), "a-quick")
