import unittest

from feeds import Page, discover, resolve

PAGE = b'<link rel="alternate" type="application/rss+xml" href="feed.xml">'


class Visible(unittest.TestCase):
    def test_absolute(self):
        self.assertEqual(resolve("https://example.org/", "https://example.net/rss"), "https://example.net/rss")

    def test_a_page_in_a_directory(self):
        found = discover("https://example.org/blog/today.html", lambda url: Page(url, 200, PAGE))
        self.assertEqual(found, ["https://example.org/blog/feed.xml"])


if __name__ == "__main__":
    unittest.main()
