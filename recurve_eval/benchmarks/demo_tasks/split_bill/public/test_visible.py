import unittest

from solution import split_bill


class Visible(unittest.TestCase):
    def test_even(self):
        self.assertEqual(split_bill(900, [1, 1, 1]), [300, 300, 300])

    def test_one_cent_left(self):
        self.assertEqual(split_bill(1000, [1, 1, 1]), [334, 333, 333])

    def test_weights(self):
        self.assertEqual(split_bill(100, [1, 3]), [25, 75])
