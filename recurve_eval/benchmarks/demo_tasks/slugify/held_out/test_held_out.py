import re
import unittest

from solution import slugify


class Slugify(unittest.TestCase):
    def test_accents(self):
        self.assertEqual(slugify("Crème Brûlée à la carte"), "creme-brulee-a-la-carte")
        self.assertEqual(slugify("nai\u0308ve"), "naive")

    def test_compatibility_characters(self):
        self.assertEqual(slugify("ﬁne №\u00a05"), "fine-no-5")
        self.assertEqual(slugify("x²"), "x2")

    def test_what_does_not_decompose_leaves_no_gap(self):
        self.assertEqual([slugify(t) for t in ("straße", "Søren", "東京 tower")], ["strae", "sren", "tower"])

    def test_runs_and_ends(self):
        self.assertEqual(slugify("  --Rock & Roll__(live) -- "), "rock-roll-live")

    def test_nothing_left(self):
        self.assertEqual([slugify(t) for t in ("", "   ", "!?", "東京")], ["untitled"] * 4)
        self.assertEqual(slugify("...", limit=3), "untitled")

    def test_limit_exactly_at_a_word(self):
        self.assertEqual(slugify("a quick brown fox", limit=7), "a-quick")
        self.assertEqual(slugify("a quick brown fox", limit=8), "a-quick")
        self.assertEqual(slugify("a quick brown fox", limit=6), "a")
        self.assertEqual(slugify("a quick brown fox", limit=17), "a-quick-brown-fox")

    def test_limit_within_the_first_word(self):
        self.assertEqual(slugify("incomprehensibilities again", limit=5), "incom")
        self.assertEqual(slugify("incomprehensibilities", limit=1), "i")

    def test_default_limit_is_forty(self):
        self.assertEqual(slugify("abcd " * 12), "-".join(["abcd"] * 8))
        self.assertEqual(slugify("z" * 50), "z" * 40)

    def test_always_a_slug(self):
        for code in range(0, 0x2000, 7):
            slug = slugify(f"{chr(code)}a{chr(code + 1)}-", limit=3)
            self.assertTrue(slug == "untitled" or re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug), slug)
            self.assertTrue(slug == "untitled" or len(slug) <= 3)
