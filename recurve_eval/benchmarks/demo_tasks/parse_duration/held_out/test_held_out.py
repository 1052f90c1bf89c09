import unittest

from solution import parse_duration


class ParseDuration(unittest.TestCase):
    def refuse(self, *texts):
        for text in texts:
            with self.subTest(text=text), self.assertRaises(ValueError):
                parse_duration(text)

    def test_all_units(self):
        self.assertEqual(parse_duration("1d2h3m4s"), 93784)

    def test_units_may_be_left_out(self):
        self.assertEqual([parse_duration(t) for t in ("2d5s", "1h1s", "3d", "0s")], [172805, 3601, 259200, 0])

    def test_large_numbers_and_leading_zeros(self):
        self.assertEqual([parse_duration(t) for t in ("120m", "007s", "100000000000s")], [7200, 7, 100000000000])

    def test_spaces_around(self):
        self.assertEqual(parse_duration("  1h30m\n"), 5400)

    def test_empty(self):
        self.refuse("", " ", "\n")

    def test_order_and_repetition(self):
        self.refuse("30m1h", "5s1d", "1h1h", "1m2m")

    def test_incomplete(self):
        self.refuse("5", "h", "1h30", "h5m", "1hm")

    def test_trailing_and_leading_text(self):
        self.refuse("1h30m!", "x1h", "1h 30m", "1h,30m", "5sec")

    def test_signs_points_and_case(self):
        self.refuse("-5s", "+5s", "1.5h", "1H", "5S")

    def test_other_digits(self):
        self.refuse("\u0665s", "\uff15s", "1h\u0663m", "\u00b2s")
