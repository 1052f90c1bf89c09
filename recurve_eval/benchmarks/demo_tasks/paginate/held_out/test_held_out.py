import unittest

from solution import paginate


class Paginate(unittest.TestCase):
    def test_exactly_full_last_page(self):
        expected = {"items": [3, 4], "page": 2, "pages": 2, "first": 3, "last": 4, "more": False}
        self.assertEqual(paginate([1, 2, 3, 4], 2, 2), expected)

    def test_no_page_after_an_exactly_full_one(self):
        with self.assertRaises(ValueError):
            paginate([1, 2, 3, 4], 3, 2)

    def test_empty_list_has_one_empty_page(self):
        expected = {"items": [], "page": 1, "pages": 1, "first": None, "last": None, "more": False}
        self.assertEqual(paginate([], 1, 10), expected)

    def test_empty_list_has_no_second_page(self):
        with self.assertRaises(ValueError):
            paginate([], 2, 10)

    def test_page_below_one(self):
        for page in (0, -1, -2):
            with self.assertRaises(ValueError):
                paginate([1, 2, 3], page, 1)

    def test_size_below_one(self):
        for size in (0, -3):
            with self.assertRaises(ValueError):
                paginate([1, 2, 3], 1, size)

    def test_one_page_holds_all(self):
        expected = {"items": [1, 2, 3], "page": 1, "pages": 1, "first": 1, "last": 3, "more": False}
        self.assertEqual(paginate([1, 2, 3], 1, 50), expected)

    def test_the_page_is_a_copy(self):
        items = [1, 2, 3]
        paginate(items, 1, 50)["items"].append(4)
        self.assertEqual(items, [1, 2, 3])

    def test_pages_join_up(self):
        items = list(range(23))
        for size in range(1, 25):
            pages = paginate(items, 1, size)["pages"]
            joined = [item for page in range(1, pages + 1) for item in paginate(items, page, size)["items"]]
            self.assertEqual(joined, items)
            self.assertIs(paginate(items, pages, size)["more"], False)
