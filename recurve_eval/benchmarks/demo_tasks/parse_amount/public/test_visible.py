import unittest

from solution import parse_amount


class Visible(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(parse_amount("12.50"), 1250)

    def test_thousands(self):
        self.assertEqual(parse_amount("1,234.56"), 123456)

    def test_nonsense(self):
        with self.assertRaises(ValueError):
            parse_amount("twelve")
