import unittest

from feeds import FeedError, Page, discover, entries, kind, links, resolve

RSS = (
    b'<?xml version="1.0"?><rss version="2.0"><channel><title>News</title>'
    b"<item><title> First </title><link>posts/1.html</link></item>"
    b"<item><title>Second</title></item></channel></rss>"
)
RDF = (
    b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">'
    b"<item><title>Old</title><link>/old</link></item></rdf:RDF>"
)
ATOM = (
    b'<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>'
    b'<entry><title>One</title><link rel="edit" href="edit/1"/><link href="../1"/></entry>'
    b'<entry><link rel="alternate" href="2?a=b"/></entry></feed>'
)
PAGE = "https://example.org/blog/2024/today.html"


def offline(pages):
    asked = []

    def fetch(url):
        asked.append(url)
        if url not in pages:
            raise OSError("there is no network here")
        found = pages[url]
        return found if isinstance(found, Page) else Page(url, 200, found)

    fetch.asked = asked
    return fetch


class Urls(unittest.TestCase):
    def holds(self, base, reference, expected):
        self.assertEqual(resolve(base, reference), expected)

    def test_01_child(self):
        self.holds(PAGE, "rss.xml", "https://example.org/blog/2024/rss.xml")

    def test_02_child_of_a_directory(self):
        self.holds("https://example.org/blog/2024/", "rss.xml", "https://example.org/blog/2024/rss.xml")

    def test_03_grandchild(self):
        self.holds(PAGE, "feeds/all/rss.xml", "https://example.org/blog/2024/feeds/all/rss.xml")

    def test_04_parent(self):
        self.holds(PAGE, "../rss.xml", "https://example.org/blog/rss.xml")

    def test_05_two_parents(self):
        self.holds(PAGE, "../../rss.xml", "https://example.org/rss.xml")

    def test_06_never_above_the_root(self):
        self.holds(PAGE, "../../../../rss.xml", "https://example.org/rss.xml")

    def test_07_here(self):
        self.holds(PAGE, "./rss.xml", "https://example.org/blog/2024/rss.xml")
        self.holds(PAGE, "..", "https://example.org/blog/")

    def test_08_dots_inside(self):
        self.holds(PAGE, "a/./b/../rss.xml", "https://example.org/blog/2024/a/rss.xml")

    def test_09_root_relative(self):
        self.holds(PAGE, "/rss.xml", "https://example.org/rss.xml")

    def test_10_scheme_relative(self):
        self.holds(PAGE, "//feeds.example.net/rss.xml", "https://feeds.example.net/rss.xml")

    def test_11_absolute(self):
        self.holds(PAGE, "http://example.com/rss.xml?x=1", "http://example.com/rss.xml?x=1")
        self.holds(PAGE, "https://example.com/a/../rss.xml?x=a/../b", "https://example.com/rss.xml?x=a/../b")

    def test_12_query_alone(self):
        self.holds(PAGE + "?page=2", "?format=rss", PAGE + "?format=rss")

    def test_13_child_with_a_query(self):
        self.holds(PAGE + "?from=/a/b", "rss?tag=a/b", "https://example.org/blog/2024/rss?tag=a/b")

    def test_14_fragment_alone(self):
        self.holds(PAGE + "?page=2#top", "#feed", PAGE + "?page=2#feed")

    def test_15_empty(self):
        self.holds(PAGE + "?page=2#top", "", PAGE + "?page=2")

    def test_16_percent_encoding(self):
        self.holds("https://example.org/a%2Fb/c", "d%20e/%C3%A9.xml", "https://example.org/a%2Fb/d%20e/%C3%A9.xml")

    def test_17_port(self):
        self.holds("http://example.org:8080/a/b", "c.xml", "http://example.org:8080/a/c.xml")

    def test_18_page_without_a_path(self):
        self.holds("https://example.org", "rss.xml", "https://example.org/rss.xml")


class Links(unittest.TestCase):
    def test_kinds_and_words(self):
        html = (
            '<LINK REL="Alternate home" TYPE="Application/RSS+xml; charset=utf-8" HREF="a.xml">'
            '<link rel=alternate type="application/atom+xml" href=" /b.xml "/>'
            '<link rel="alternate" type="text/html" href="c.html"><link rel="stylesheet" href="d.css">'
            '<link rel="alternatives" type="application/rss+xml" href="e.xml"><link rel="alternate" type="application/rss+xml">'
        )
        self.assertEqual(links(PAGE, html), ["https://example.org/blog/2024/a.xml", "https://example.org/b.xml"])

    def test_each_once_and_web_only(self):
        link = '<link rel="alternate" type="application/rss+xml" href="%s">'
        html = "".join(link % href for href in ("a.xml", "./a.xml", "mailto:x@example.org", "feed://example.org/x", "../b"))
        self.assertEqual(links(PAGE, html), ["https://example.org/blog/2024/a.xml", "https://example.org/blog/b"])


class Feeds(unittest.TestCase):
    def test_rss(self):
        self.assertEqual(kind(RSS), "rss")
        self.assertEqual(
            entries("https://example.org/blog/feed.xml", RSS),
            [("First", "https://example.org/blog/posts/1.html"), ("Second", "")],
        )

    def test_rdf(self):
        self.assertEqual(kind(RDF), "rss")
        self.assertEqual(entries("https://example.org/x/y", RDF), [("Old", "https://example.org/old")])

    def test_atom(self):
        self.assertEqual(kind(ATOM), "atom")
        self.assertEqual(
            entries("https://example.org/blog/feeds/atom.xml", ATOM),
            [("One", "https://example.org/blog/1"), ("", "https://example.org/blog/feeds/2?a=b")],
        )

    def test_neither(self):
        for body in (b"", b"<html></html>", b"<feed/>", b'<feed xmlns="urn:other"/>', b"<rss", b"\xff\xfe\x00", b"<newsfeed/>"):
            self.assertIsNone(kind(body), body)


class Discovery(unittest.TestCase):
    def test_a_page_names_its_feeds(self):
        page = b'<link rel="alternate" type="application/atom+xml" href="../atom.xml">'
        fetch = offline({PAGE: page})
        self.assertEqual(discover(PAGE, fetch), ["https://example.org/blog/atom.xml"])
        self.assertEqual(fetch.asked, [PAGE])

    def test_links_are_relative_to_where_a_redirect_led(self):
        page = b'<link rel="alternate" type="application/rss+xml" href="rss.xml">'
        moved = Page("https://new.example.org/journal/index.html", 200, page)
        self.assertEqual(discover(PAGE, offline({PAGE: moved})), ["https://new.example.org/journal/rss.xml"])

    def test_a_feed_is_its_own(self):
        for body in (RSS, RDF, ATOM):
            self.assertEqual(discover(PAGE, offline({PAGE: body})), [PAGE])

    def test_the_usual_places_are_tried_in_order(self):
        fetch = offline({PAGE: b"<html></html>", "https://example.org/rss.xml": RSS, "https://example.org/atom.xml": ATOM})
        self.assertEqual(discover(PAGE, fetch), ["https://example.org/rss.xml"])
        self.assertEqual(fetch.asked, [PAGE, "https://example.org/feed", "https://example.org/rss.xml"])

    def test_an_error_page_is_no_feed(self):
        gone = Page("https://example.org/feed", 404, RSS)
        fetch = offline({PAGE: b"", "https://example.org/feed": gone, "https://example.org/atom.xml": ATOM})
        self.assertEqual(discover(PAGE, fetch), ["https://example.org/atom.xml"])

    def test_nothing_to_be_found(self):
        self.assertEqual(discover(PAGE, offline({PAGE: b"<p>no feed</p>"})), [])

    def test_a_page_that_cannot_be_had(self):
        for pages in ({}, {PAGE: Page(PAGE, 400, RSS)}, {PAGE: Page(PAGE, 503, b"")}):
            with self.assertRaises(FeedError):
                discover(PAGE, offline(pages))


if __name__ == "__main__":
    unittest.main()
