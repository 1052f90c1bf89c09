"""The feed discovery task: its canonical solution by RFC 3986, and what the seeded source fails."""

from __future__ import annotations

from typing import Any

import pytest

from recurve_eval.benchmarks.rss import Rss
from recurve_eval.domain import OracleVerdict, Submission
from recurve_eval.oracle.process import ProcessOracle

TASK = "feed_discovery"
# RFC 3986, sections 5.4.1 and 5.4.2 (strict), against http://a/b/c/d;p?q
EXAMPLES = {
    "g": "http://a/b/c/g", "./g": "http://a/b/c/g", "g/": "http://a/b/c/g/", "/g": "http://a/g", "//g": "http://g",
    "?y": "http://a/b/c/d;p?y", "g?y": "http://a/b/c/g?y", "#s": "http://a/b/c/d;p?q#s", "g#s": "http://a/b/c/g#s",
    "g?y#s": "http://a/b/c/g?y#s", ";x": "http://a/b/c/;x", "g;x": "http://a/b/c/g;x",
    "g;x?y#s": "http://a/b/c/g;x?y#s", "": "http://a/b/c/d;p?q", ".": "http://a/b/c/", "./": "http://a/b/c/",
    "..": "http://a/b/", "../": "http://a/b/", "../g": "http://a/b/g", "../..": "http://a/", "../../": "http://a/",
    "../../g": "http://a/g", "../../../g": "http://a/g", "../../../../g": "http://a/g", "/./g": "http://a/g",
    "/../g": "http://a/g", "g.": "http://a/b/c/g.", ".g": "http://a/b/c/.g", "g..": "http://a/b/c/g..",
    "..g": "http://a/b/c/..g", "./../g": "http://a/b/g", "./g/.": "http://a/b/c/g/", "g/./h": "http://a/b/c/g/h",
    "g/../h": "http://a/b/c/h", "g;x=1/./y": "http://a/b/c/g;x=1/y", "g;x=1/../y": "http://a/b/c/y",
    "g?y/./x": "http://a/b/c/g?y/./x", "g?y/../x": "http://a/b/c/g?y/../x", "g#s/./x": "http://a/b/c/g#s/./x",
    "g#s/../x": "http://a/b/c/g#s/../x",
}  # fmt: skip
RELATIVE = {1, 2, 3, 4, 7, 8, 12, 13, 14, 16, 17}  # cases that the root of the site answers differently than the page


@pytest.fixture(scope="module")
def canonical() -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "feeds"}
    exec(Rss().solutions(TASK).canonical["feeds.py"], scope)
    return scope


@pytest.mark.parametrize("reference", EXAMPLES)
def test_the_canonical_solution_resolves_as_the_standard_says(canonical: dict[str, Any], reference: str) -> None:
    assert canonical["resolve"]("http://a/b/c/d;p?q", reference) == EXAMPLES[reference]


def test_the_seeded_source_fails_exactly_what_is_relative_to_the_page() -> None:
    bench, oracle = Rss(), ProcessOracle()
    try:
        seeded = {"feeds.py": bench.task(TASK).public["feeds.py"]}
        job = bench.oracle_job(TASK, Submission.of_reference("seeded", seeded))
        grade = oracle.grade(job)
    finally:
        oracle.close()
    urls = [test for test in job.expected if test.startswith("Urls.")]
    assert len(urls) == 18
    assert grade.verdict is OracleVerdict.FAIL
    failed = set(grade.failed)
    assert {test for test in failed if test.startswith("Urls.")} == {t for t in urls if int(t[10:12]) in RELATIVE}
    assert {test for test in failed if not test.startswith("Urls.")} == {
        "Links.test_kinds_and_words", "Links.test_each_once_and_web_only", "Feeds.test_rss", "Feeds.test_atom",
        "Discovery.test_a_page_names_its_feeds", "Discovery.test_links_are_relative_to_where_a_redirect_led",
    }  # fmt: skip
