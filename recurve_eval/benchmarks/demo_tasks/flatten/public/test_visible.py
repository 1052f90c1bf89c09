import unittest

from solution import flatten


class Visible(unittest.TestCase):
    def test_nested(self):
        self.assertEqual(flatten([1, [2, [3, 4]], 5]), [1, 2, 3, 4, 5])

    def test_not_a_list(self):
        with self.assertRaises(TypeError):
            flatten(7)
