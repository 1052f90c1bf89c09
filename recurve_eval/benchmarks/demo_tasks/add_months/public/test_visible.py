import unittest
from datetime import date

from solution import add_months, schedule


class Visible(unittest.TestCase):
    def test_next_month(self):
        self.assertEqual(add_months(date(2023, 3, 15), 1), date(2023, 4, 15))

    def test_into_a_shorter_month(self):
        self.assertEqual(add_months(date(2023, 1, 31), 1), date(2023, 2, 28))

    def test_schedule(self):
        self.assertEqual(schedule(date(2023, 5, 1), 3), [date(2023, 5, 1), date(2023, 6, 1), date(2023, 7, 1)])
