import copy
import random
import unittest

from solution import merge_bookings


class MergeBookings(unittest.TestCase):
    def test_nothing_booked(self):
        self.assertEqual(merge_bookings([]), [])

    def test_one_booking(self):
        self.assertEqual(merge_bookings([[5, 9]]), [[5, 9]])

    def test_touching_bookings_are_one(self):
        self.assertEqual(merge_bookings([[60, 90], [90, 120], [121, 130]]), [[60, 120], [121, 130]])

    def test_a_booking_inside_another(self):
        self.assertEqual(merge_bookings([[10, 100], [20, 30], [40, 50], [100, 101]]), [[10, 101]])

    def test_repeated_bookings(self):
        self.assertEqual(merge_bookings([[7, 8], [7, 8], [7, 8]]), [[7, 8]])

    def test_moments_without_length(self):
        self.assertEqual(merge_bookings([[9, 9], [5, 5], [5, 7], [8, 8]]), [[5, 7], [8, 8], [9, 9]])

    def test_the_argument_is_left_alone(self):
        bookings = [[200, 260], [10, 30], [20, 40], [40, 41]]
        before = copy.deepcopy(bookings)
        merge_bookings(bookings)
        self.assertEqual(bookings, before)

    def test_the_result_shares_nothing(self):
        bookings = [[1, 2], [5, 6], [6, 8]]
        merged = merge_bookings(bookings)
        for booking in merged:
            booking[0] = booking[1] = -1
        self.assertEqual(bookings, [[1, 2], [5, 6], [6, 8]])

    def test_agrees_with_painting_every_half_minute(self):
        draw = random.Random(11)
        for _ in range(60):
            bookings = [[s, s + draw.randrange(9)] for s in (draw.randrange(60) for _ in range(draw.randrange(9)))]
            self.assertEqual(merge_bookings(bookings), painted(bookings))


def painted(bookings):
    half_minutes = sorted({m for start, end in bookings for m in range(2 * start, 2 * end + 1)})
    runs = []
    for moment in half_minutes:
        if runs and runs[-1][1] == moment - 1:
            runs[-1][1] = moment
        else:
            runs.append([moment, moment])
    return [[start // 2, end // 2] for start, end in runs]
