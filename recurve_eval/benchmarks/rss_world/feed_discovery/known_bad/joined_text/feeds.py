"""The RSS and Atom feeds of a web page."""

import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

ATOM = "{http://www.w3.org/2005/Atom}"
RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}RDF"
TYPES = ("application/rss+xml", "application/atom+xml")
USUAL_PLACES = ("/feed", "/rss.xml", "/atom.xml")


class FeedError(Exception):
    """The page cannot be had."""


class Page(NamedTuple):
    """What a fetch gave: the URL after redirects, the status, the body as bytes."""

    url: str
    status: int
    body: bytes


def resolve(base, reference):
    """The absolute URL of a reference found in the document at base (RFC 3986, section 5)."""
    if "://" in reference:
        return reference
    if reference.startswith("/"):
        return urljoin(base, reference)
    return base.rsplit("/", 1)[0] + "/" + reference


def links(base, html):
    """The feeds that a page names, absolute, in document order, each once."""
    parser = _Links()
    parser.feed(html)
    found = [resolve(base, href.strip()) for href in parser.hrefs]
    return list(dict.fromkeys(url for url in found if urlsplit(url).scheme in ("http", "https")))


class _Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.hrefs = []

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        kind = values.get("type", "").split(";")[0].strip().lower()
        alternate = "alternate" in values.get("rel", "").lower().split()
        if tag == "link" and alternate and kind in TYPES and "href" in values:
            self.hrefs.append(values["href"])


def kind(body):
    """"rss", "atom", or None for anything else."""
    root = _root(body)
    if root is None:
        return None
    if root.tag in ("rss", RDF):
        return "rss"
    return "atom" if root.tag == ATOM + "feed" else None


def _root(body):
    try:
        return ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError):
        return None


def entries(base, body):
    """(title, link) of each item of a feed; "" for what is missing."""
    found = []
    for item in _root(body).iter():
        name = item.tag.rpartition("}")[2]
        if item.tag == ATOM + "entry":
            found.append((_text(item, ATOM + "title"), _resolved(base, _atom_link(item))))
        elif name == "item":
            space = item.tag[: -len(name)]
            found.append((_text(item, space + "title"), _resolved(base, _text(item, space + "link"))))
    return found


def _text(item, name):
    return (item.findtext(name) or "").strip()


def _atom_link(entry):
    for link in entry.findall(ATOM + "link"):
        if link.get("rel", "alternate") == "alternate":
            return link.get("href", "").strip()
    return ""


def _resolved(base, reference):
    return resolve(base, reference) if reference else ""


def discover(url, fetch):
    """The feeds of the page at url. Raises FeedError where it cannot be had."""
    page = _fetched(url, fetch)
    if page is None:
        raise FeedError(url)
    if kind(page.body):
        return [page.url]
    named = links(page.url, page.body.decode("utf-8", "replace"))
    return named or _usual(page.url, fetch)


def _usual(url, fetch):
    for place in USUAL_PLACES:
        page = _fetched(resolve(url, place), fetch)
        if page is not None and kind(page.body):
            return [page.url]
    return []


def _fetched(url, fetch):
    try:
        page = fetch(url)
    except OSError:
        return None
    return page if page.status < 400 else None
