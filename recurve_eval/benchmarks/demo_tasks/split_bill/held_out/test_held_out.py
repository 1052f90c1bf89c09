import unittest
from fractions import Fraction

from solution import split_bill


class SplitBill(unittest.TestCase):
    def test_the_largest_remainder_comes_first(self):
        # Of the exact shares 1.67, 3.33 and 5 the first has the largest remainder.
        self.assertEqual(split_bill(10, [1, 2, 3]), [2, 3, 5])

    def test_the_largest_remainder_may_stand_last(self):
        self.assertEqual(split_bill(1, [1, 4]), [0, 1])
        self.assertEqual(split_bill(11, [1, 2, 4]), [2, 3, 6])

    def test_equal_remainders_go_to_the_first(self):
        self.assertEqual(split_bill(5, [1, 1, 1, 1]), [2, 1, 1, 1])
        self.assertEqual(split_bill(7, [1, 1, 1, 1]), [2, 2, 2, 1])

    def test_amounts_beyond_float_precision(self):
        amount = 10**18 + 1
        self.assertEqual(split_bill(amount, [1, 1]), [5 * 10**17 + 1, 5 * 10**17])
        self.assertEqual(split_bill(3 * amount, [1, 1, 1]), [amount] * 3)
        self.assertEqual(split_bill(3 * amount, [1, 2]), [amount, 2 * amount])

    def test_agrees_with_exact_fractions(self):
        for cents in range(1, 60):
            for weights in ([3, 3, 1], [1, 7, 9, 1], [10, 1, 10]):
                self.assertEqual(split_bill(cents, weights), by_fractions(cents, weights))

    def test_zero_weight_gets_nothing(self):
        self.assertEqual(split_bill(5, [0, 1, 1]), [0, 3, 2])
        self.assertEqual(split_bill(1, [0, 0, 7]), [0, 0, 1])

    def test_a_refund_mirrors_the_bill(self):
        self.assertEqual(split_bill(-1000, [1, 1, 1]), [-334, -333, -333])
        self.assertEqual(split_bill(-10, [1, 2, 3]), [-2, -3, -5])

    def test_nothing_to_split(self):
        self.assertEqual(split_bill(0, [3, 4]), [0, 0])

    def test_one_payer(self):
        self.assertEqual(split_bill(1234, [9]), [1234])

    def test_shares_are_integers_that_add_up(self):
        for cents in range(-40, 41):
            for weights in ([1, 2, 4], [5, 0, 3, 3], [7, 11]):
                shares = split_bill(cents, weights)
                self.assertEqual(sum(shares), cents)
                self.assertTrue(all(type(share) is int for share in shares))


def by_fractions(cents, weights):
    exact = [Fraction(cents * weight, sum(weights)) for weight in weights]
    shares = [int(share) for share in exact]
    while sum(shares) < cents:
        left = [share - whole for share, whole in zip(exact, shares)]
        shares[left.index(max(left))] += 1
    return shares
