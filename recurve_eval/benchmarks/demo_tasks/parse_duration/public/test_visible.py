import unittest

from solution import parse_duration


class Visible(unittest.TestCase):
    def test_single_units(self):
        self.assertEqual([parse_duration(t) for t in ("5s", "2m", "1h")], [5, 120, 3600])

    def test_hours_and_minutes(self):
        self.assertEqual(parse_duration("1h30m"), 5400)

    def test_nonsense(self):
        with self.assertRaises(ValueError):
            parse_duration("soon")
