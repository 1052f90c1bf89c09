import unittest

from solution import parse_amount


class ParseAmount(unittest.TestCase):
    def refuse(self, *texts, decimal="."):
        for text in texts:
            with self.subTest(text=text), self.assertRaises(ValueError):
                parse_amount(text, decimal)

    def test_decimal_comma(self):
        self.assertEqual(parse_amount("1.234,56", decimal=","), 123456)
        self.assertEqual(parse_amount("2,5", decimal=","), 250)
        self.assertEqual(parse_amount("1.234", decimal=","), 123400)

    def test_every_cent_is_exact(self):
        for cents in range(100, 3000):
            self.assertEqual(parse_amount(f"{cents // 100}.{cents % 100:02}"), cents)

    def test_large_amounts(self):
        self.assertEqual(parse_amount("90,071,992,547,409,931.37"), 9007199254740993137)

    def test_whole_units_and_one_decimal(self):
        self.assertEqual([parse_amount(t) for t in ("7", "7.1", "007.10", "0", "1,000")], [700, 710, 710, 0, 100000])

    def test_negative(self):
        self.assertEqual([parse_amount(t) for t in ("-3.25", "-0.50", "-1,000", " -7 ")], [-325, -50, -100000, -700])

    def test_grouping_must_be_right(self):
        self.refuse("12,34", "1234,567", "1,23,456", ",123", "1,234,", "1,,234", "1,2345.00")
        self.refuse("12.34", "1234.567", decimal=",")

    def test_marks_without_digits(self):
        self.refuse("", " ", "-", ".", ".50", "5.", "-.5")

    def test_decimals(self):
        self.refuse("1.234", "1.2.3", "1.23.", "1.2,3")

    def test_no_other_characters(self):
        self.refuse("+5", "1e3", "$5", "1 000", "1_000", "- 5", "--5", "5-", "0x10", "inf", "nan", "\u0665", "\uff15.00")
