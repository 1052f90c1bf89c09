import unittest

from solution import leaderboard


class Visible(unittest.TestCase):
    def test_three_players(self):
        scores = [("ann", 3), ("bob", 9), ("cyd", 5)]
        self.assertEqual(leaderboard(scores), [(1, "bob", 9), (2, "cyd", 5), (3, "ann", 3)])

    def test_a_tie_at_the_end(self):
        self.assertEqual(leaderboard([("ann", 4), ("bob", 4)]), [(1, "ann", 4), (1, "bob", 4)])

    def test_nobody(self):
        self.assertEqual(leaderboard([]), [])
