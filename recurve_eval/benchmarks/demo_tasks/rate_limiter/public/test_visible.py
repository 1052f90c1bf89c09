import unittest

from solution import RateLimiter


class Visible(unittest.TestCase):
    def test_two_in_ten_seconds(self):
        limiter = RateLimiter(2, 10)
        self.assertEqual([limiter.allow("a", t) for t in (0, 1, 2)], [True, True, False])

    def test_later_again(self):
        limiter = RateLimiter(1, 10)
        self.assertEqual([limiter.allow("b", t) for t in (0, 50)], [True, True])
