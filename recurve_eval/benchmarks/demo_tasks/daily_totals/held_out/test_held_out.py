import os
import time
import unittest

from solution import daily_totals

MIDNIGHT = 1700006400  # 2023-11-15 00:00:00 UTC


class DailyTotals(unittest.TestCase):
    def test_no_events(self):
        self.assertEqual(daily_totals([], 330), {})

    def test_midnight_begins_the_day(self):
        events = [(MIDNIGHT - 1, 1), (MIDNIGHT, 10)]
        self.assertEqual(daily_totals(events, 0), {"2023-11-14": 1, "2023-11-15": 10})

    def test_ahead_of_utc(self):
        # 18:29:59 and 18:30:00 UTC are the two sides of midnight at UTC+5:30.
        events = [(MIDNIGHT - 19801, 1), (MIDNIGHT - 19800, 10)]
        self.assertEqual(daily_totals(events, 330), {"2023-11-14": 1, "2023-11-15": 10})

    def test_behind_utc(self):
        events = [(MIDNIGHT + 4 * 3600, 1), (MIDNIGHT + 5 * 3600, 10)]
        self.assertEqual(daily_totals(events, -300), {"2023-11-14": 1, "2023-11-15": 10})

    def test_before_1970(self):
        self.assertEqual(daily_totals([(-1, 1), (0, 2), (-86400, 4), (-86401, 8)], 0), {"1969-12-30": 8, "1969-12-31": 5, "1970-01-01": 2})

    def test_dates_ascend_whatever_the_order_of_events(self):
        events = [(MIDNIGHT + 86400, 1), (MIDNIGHT, 2), (MIDNIGHT - 86400, 3), (MIDNIGHT + 1, 4)]
        self.assertEqual(list(daily_totals(events, 0).items()), [("2023-11-14", 3), ("2023-11-15", 6), ("2023-11-16", 1)])

    def test_a_day_that_adds_up_to_zero_stays(self):
        self.assertEqual(daily_totals([(MIDNIGHT, 5), (MIDNIGHT + 60, -5)], 0), {"2023-11-15": 0})

    def test_leap_day(self):
        self.assertEqual(daily_totals([(1709164800, 1), (1709251199, 1), (1709251200, 1)], 0), {"2024-02-29": 2, "2024-03-01": 1})

    def test_the_machine_does_not_matter(self):
        before = os.environ.get("TZ")
        try:
            for zone in ("UTC+11", "UTC-11"):
                os.environ["TZ"] = zone
                time.tzset()
                self.assertEqual(daily_totals([(MIDNIGHT - 1, 1), (MIDNIGHT, 2)], 0), {"2023-11-14": 1, "2023-11-15": 2})
        finally:
            os.environ.pop("TZ", None)
            if before is not None:
                os.environ["TZ"] = before
            time.tzset()
