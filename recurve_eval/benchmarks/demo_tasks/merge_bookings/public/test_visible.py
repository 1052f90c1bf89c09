import unittest

from solution import merge_bookings


class Visible(unittest.TestCase):
    def test_two_overlap(self):
        self.assertEqual(merge_bookings([[60, 120], [90, 150]]), [[60, 150]])

    def test_apart(self):
        self.assertEqual(merge_bookings([[60, 90], [100, 120]]), [[60, 90], [100, 120]])

    def test_unsorted(self):
        self.assertEqual(merge_bookings([[200, 260], [10, 30], [20, 40]]), [[10, 40], [200, 260]])
