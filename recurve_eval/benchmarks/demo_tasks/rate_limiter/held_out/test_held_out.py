import tracemalloc
import unittest

from solution import RateLimiter


class Limiter(unittest.TestCase):
    def test_exactly_one_window_later(self):
        limiter = RateLimiter(1, 10)
        self.assertEqual([limiter.allow("a", t) for t in (5, 14, 15)], [True, False, True])

    def test_the_window_slides(self):
        limiter = RateLimiter(2, 10)
        self.assertEqual([limiter.allow("a", t) for t in (8, 9, 11, 18, 18, 19)], [True, True, False, True, False, True])

    def test_denied_calls_do_not_count(self):
        limiter = RateLimiter(1, 10)
        self.assertEqual([limiter.allow("a", t) for t in (0, 4, 8, 10, 12, 20)], [True, False, False, True, False, True])

    def test_many_calls_at_one_moment(self):
        limiter = RateLimiter(3, 1)
        self.assertEqual([limiter.allow("a", 7) for _ in range(5)], [True, True, True, False, False])

    def test_keys_are_apart(self):
        limiter = RateLimiter(1, 10)
        self.assertEqual([limiter.allow(k, 0) for k in ("a", "b", "a", "b", 1)], [True, True, False, False, True])

    def test_limiters_are_apart(self):
        first, second = RateLimiter(1, 10), RateLimiter(1, 10)
        self.assertTrue(first.allow("a", 0))
        self.assertTrue(second.allow("a", 0))

    def test_limit_zero(self):
        limiter = RateLimiter(0, 5)
        self.assertEqual([limiter.allow("a", t) for t in (0, 100)], [False, False])

    def test_impossible_limits(self):
        for numbers in ((-1, 10), (1, 0), (1, -5)):
            with self.subTest(numbers=numbers), self.assertRaises(ValueError):
                RateLimiter(*numbers)

    def test_negative_times(self):
        limiter = RateLimiter(1, 10)
        self.assertEqual([limiter.allow("a", t) for t in (-25, -16, -15, -5)], [True, False, True, True])

    def test_old_calls_are_forgotten(self):
        limiter = RateLimiter(3, 10)
        self.assertTrue(limiter.allow("a", 0))
        tracemalloc.start()
        try:
            for now in range(1000, 41000, 10):
                self.assertTrue(limiter.allow("a", now))
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        self.assertLess(held, 64 * 1024)  # 4,000 remembered times take more than twice that
