import unittest
from datetime import date

from solution import add_months, schedule


class AddMonths(unittest.TestCase):
    def test_across_the_year(self):
        self.assertEqual(add_months(date(2023, 11, 30), 1), date(2023, 12, 30))
        self.assertEqual(add_months(date(2023, 12, 5), 1), date(2024, 1, 5))
        self.assertEqual(add_months(date(2023, 1, 5), 11), date(2023, 12, 5))
        self.assertEqual(add_months(date(2023, 12, 5), 12), date(2024, 12, 5))

    def test_leap_years(self):
        self.assertEqual(add_months(date(2024, 1, 31), 1), date(2024, 2, 29))
        self.assertEqual(add_months(date(2024, 2, 29), 12), date(2025, 2, 28))
        self.assertEqual(add_months(date(2024, 2, 29), 48), date(2028, 2, 29))

    def test_centuries(self):
        self.assertEqual(add_months(date(1899, 12, 31), 2), date(1900, 2, 28))
        self.assertEqual(add_months(date(1999, 12, 31), 2), date(2000, 2, 29))

    def test_back_in_time(self):
        self.assertEqual(add_months(date(2023, 1, 31), -1), date(2022, 12, 31))
        self.assertEqual(add_months(date(2023, 3, 31), -1), date(2023, 2, 28))
        self.assertEqual(add_months(date(2023, 6, 10), -18), date(2021, 12, 10))

    def test_no_months(self):
        self.assertEqual(add_months(date(2024, 2, 29), 0), date(2024, 2, 29))

    def test_thirty_day_months(self):
        self.assertEqual([add_months(date(2023, 1, 31), n).day for n in range(12)], [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])

    def test_outside_the_calendar(self):
        for day, months in ((date(9999, 12, 1), 1), (date(1, 1, 1), -1)):
            with self.assertRaises((ValueError, OverflowError)):
                add_months(day, months)


class Schedule(unittest.TestCase):
    def test_the_day_comes_back_after_a_short_month(self):
        expected = [date(2023, 1, 31), date(2023, 2, 28), date(2023, 3, 31), date(2023, 4, 30), date(2023, 5, 31)]
        self.assertEqual(schedule(date(2023, 1, 31), 5), expected)

    def test_nothing_due(self):
        self.assertEqual(schedule(date(2023, 1, 31), 0), [])

    def test_two_years(self):
        due = schedule(date(2023, 10, 30), 24)
        self.assertEqual((len(due), due[-1], due[4]), (24, date(2025, 9, 30), date(2024, 2, 29)))
