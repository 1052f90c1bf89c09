import unittest

from solution import daily_totals


class Visible(unittest.TestCase):
    def test_two_days_in_utc(self):
        events = [(1700000000, 5), (1700000600, 7), (1700090000, 1)]
        self.assertEqual(daily_totals(events, 0), {"2023-11-14": 12, "2023-11-15": 1})

    def test_around_noon_the_offset_changes_nothing(self):
        self.assertEqual(daily_totals([(1700049600, 3)], 60), {"2023-11-15": 3})
