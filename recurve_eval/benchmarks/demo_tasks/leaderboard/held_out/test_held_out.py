import unittest

from solution import leaderboard


class Leaderboard(unittest.TestCase):
    def test_ranks_after_a_tie_count_everyone(self):
        ranks = [row[0] for row in leaderboard([("a", 9), ("b", 7), ("c", 7), ("d", 5), ("e", 5), ("f", 1)])]
        self.assertEqual(ranks, [1, 2, 2, 4, 4, 6])

    def test_a_tie_keeps_the_order_of_finishing(self):
        scores = [("zoe", 5), ("amy", 5), ("max", 8), ("bea", 5)]
        self.assertEqual(leaderboard(scores), [(1, "max", 8), (2, "zoe", 5), (2, "amy", 5), (2, "bea", 5)])

    def test_negative_points(self):
        self.assertEqual(leaderboard([("a", -3), ("b", 0), ("c", -1)]), [(1, "b", 0), (2, "c", -1), (3, "a", -3)])

    def test_integers_and_floats_tie(self):
        self.assertEqual(leaderboard([("a", 2), ("b", 2.0), ("c", 2.5)]), [(1, "c", 2.5), (2, "a", 2), (2, "b", 2.0)])

    def test_one_name_twice(self):
        self.assertEqual(leaderboard([("a", 1), ("a", 4)]), [(1, "a", 4), (2, "a", 1)])

    def test_all_equal(self):
        self.assertEqual([row[0] for row in leaderboard([(n, 0) for n in "dcba"])], [1, 1, 1, 1])

    def test_nobody(self):
        self.assertEqual(leaderboard([]), [])

    def test_the_argument_is_left_alone(self):
        scores = [("a", 1), ("b", 2)]
        leaderboard(scores)
        self.assertEqual(scores, [("a", 1), ("b", 2)])

    def test_many_players(self):
        scores = [(f"p{n:03}", n // 10) for n in range(200)]
        board = leaderboard(scores)
        self.assertEqual(board[0], (1, "p190", 19))
        self.assertEqual(board[-1], (191, "p009", 0))
