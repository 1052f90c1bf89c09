"""report.html: hostile evidence shown and never obeyed, the same bytes anywhere, and a page that works in a browser."""

from __future__ import annotations

import html.parser
import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from analysis_samples import Row, plan_of, row

from recurve_eval.analysis import analyze_rows

HOSTILE = (
    "</script><script>window.owned=1</script><img src=x onerror='window.owned=2'></pre></details></template>"
    "<template id=d-x>\x1b[31mred\x1b[0m \u202ekcab\u202c \x00 <!-- ]]> &lt; <a href=javascript:owned=3>x</a> {{script}}\n"
)


def evidence(cells: Path, rows: list[Row]) -> None:
    for number, one in enumerate(rows):
        place = cells / one["identity"]["cell_id"]
        (place / "gate").mkdir(parents=True)
        (place / "submission").mkdir()
        (place / "base").mkdir()
        (place / "prompt.md").write_text(f"Solve it {number}.\n" + HOSTILE)
        (place / "transcript-1.txt").write_bytes(
            HOSTILE.encode() + b"\xed\xa0\x80 \xff\n" + b"x" * (10 << 20 if number == 1 else 9)
        )
        (place / "transcript-1.txt").chmod(0o644)
        finding = {
            "component": "ci",
            "verdict": "RED",
            "message": HOSTILE,
            "binding": True,
            "evidence": {"k": "\ud800" + HOSTILE},
        }
        (place / "gate" / "round-1.ci.json").write_text(json.dumps(finding))
        (place / "submission.json").write_text(json.dumps({"files": [{"path": HOSTILE, "status": "ok", "size": 3}]}))
        (place / "base" / "solution.py").write_text("x = 1\ny = 2\n")
        (place / "submission" / "solution.py").write_text("x = 1\ny = 3\n" + HOSTILE)
        grade = {
            "verdict": "fail",
            "tests_passed": 1,
            "tests_total": 2,
            "failed": [HOSTILE],
            "stdout": "\udfff" + HOSTILE,
        }
        (place / "grade.json").write_text(json.dumps(grade))


def sample() -> list[Row]:
    rows = [
        row(f"t{n}", arm, tokens=(100 * n + 7, 3), verdict="fail" if n % 2 else "pass")
        for n in range(6)
        for arm in ("A0", "A1")
    ]
    rows.append(row("hostile name"))
    rows[-1]["identity"]["task_id"] = "</script><script>window.owned=4</script>\ud83d\x07"
    return rows


def report(place: Path, rows: list[Row], cells: Path | None) -> Path:
    analyze_rows(rows, plan=plan_of()).write(place, figures=True, report=True, cells=cells)
    return place / "report.html"


class Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report")
    evidence(place / "cells", sample())
    return report(place / "analysis", sample(), place / "cells")


def test_hostile_evidence_is_text_and_bounded(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text) < 4 << 20, "ten megabytes of output are cut"
    assert "bytes left out" in text
    tags = Tags()
    tags.feed(text)
    assert sum(t == "script" for t, _ in tags.found) == 2
    assert all(a.get("src", "").startswith("data:image/svg+xml") for t, a in tags.found if t == "img")
    assert not [a for _, a in tags.found if any(k.startswith("on") for k in a)]
    assert sum(t == "template" for t, _ in tags.found) == 13
    assert "\x1b" not in text and "\u202e" not in text and "\u241b[31mred" in text
    assert "http://" not in text.replace("http://www.w3.org", "") and "https://" not in text


def test_the_same_bytes_from_any_order_and_place(page: Path, tmp_path: Path) -> None:
    rows = sample()
    random.Random(2).shuffle(rows)
    shutil.copytree(page.parents[1] / "cells", tmp_path / "cells")
    assert report(tmp_path / "analysis", rows, tmp_path / "cells").read_bytes() == page.read_bytes()


def test_links_in_a_cells_directory_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the secret")
    place = tmp_path / "cells" / row("t1")["identity"]["cell_id"]
    (place / "submission").mkdir(parents=True)
    for name in ("prompt.md", "grade.json", "submission/solution.py"):
        (place / name).symlink_to(tmp_path / "secret")
    assert "the secret" not in report(tmp_path / "analysis", [row("t1")], tmp_path / "cells").read_text()


def test_a_large_study_keeps_its_evidence_beside_the_page_and_an_older_report_goes(tmp_path: Path) -> None:
    rows = [row(f"t{n}", arm) for n in range(1001) for arm in ("A0", "A1")]
    evidence(tmp_path / "cells", rows[:1])
    page = report(tmp_path / "analysis", rows, tmp_path / "cells")
    files = sorted((tmp_path / "analysis" / "report-cells").glob("*/*.html"))
    assert len(files) == len(rows) and page.stat().st_size < 2 << 20
    told = next(f for f in files if f.stem == rows[0]["identity"]["cell_id"]).read_text(encoding="utf-8")
    assert "Solve it 0." in told and "<script" not in told
    report(tmp_path / "analysis", rows[:2], tmp_path / "cells")
    assert not list((tmp_path / "analysis" / "report-cells").glob("*/*.html"))


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path / 'profile'}",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(driver, env={**os.environ, "HOME": str(tmp_path)})
    held = webdriver.Chrome(options=options, service=service)
    yield held
    held.quit()


def test_the_page_works_by_keyboard_filters_sorts_and_obeys_nothing(page: Path, browser: Any) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    def all_of(selector: str) -> list[Any]:
        return browser.find_elements(By.CSS_SELECTOR, selector)

    def press(*keys: str) -> None:
        browser.switch_to.active_element.send_keys(*keys)

    browser.get(page.as_uri())
    assert browser.find_element(By.ID, "count").text == "1 to 13 of 13 cells"
    arm = next(s for s in all_of("#filters select") if s.find_element(By.XPATH, "..").text.startswith("arm"))
    arm.send_keys("A1")
    WebDriverWait(browser, 20).until(lambda b: b.find_element(By.ID, "count").text == "1 to 6 of 6 cells (13 in all)")
    tokens = next(b for b in all_of("#table th button") if b.text == "tokens")
    tokens.send_keys(Keys.ENTER)
    press(Keys.ENTER)
    assert [b.text for b in all_of("#table tbody td button")] == ["t5", "t4", "t3", "t2", "t1", "t0"]
    all_of("#table tbody td button")[0].send_keys(Keys.ENTER)
    dialog = browser.find_element(By.ID, "cell")
    assert dialog.is_displayed() and "Solve it 11." in dialog.text
    assert [d.text for d in all_of("#cell .del")][-1] == "-y = 2" and "+y = 3" in [d.text for d in all_of("#cell .ins")]
    assert "<img src=x onerror='window.owned=2'>" in dialog.text and "\u241b[31mred" in dialog.text
    press(Keys.ARROW_RIGHT)
    assert browser.find_element(By.ID, "cell-title").text == "t4"
    press(Keys.ESCAPE)
    assert not dialog.is_displayed() and browser.switch_to.active_element.text == "t4"
    assert browser.execute_script("return window.owned === undefined")
    assert not [e for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
    light = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    assert light != browser.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_evidence_beside_the_page_opens_in_the_browser(tmp_path: Path, browser: Any) -> None:
    from selenium.webdriver.common.by import By

    rows = [row(f"t{n:04d}", arm) for n in range(1001) for arm in ("A0", "A1")]
    evidence(tmp_path / "cells", rows[:1])
    browser.get(report(tmp_path / "analysis", rows, tmp_path / "cells").as_uri())
    browser.find_element(By.CSS_SELECTOR, "#table tbody td button").click()
    browser.switch_to.frame(browser.find_element(By.CSS_SELECTOR, "#evidence iframe"))
    assert "Solve it 0." in browser.find_element(By.TAG_NAME, "body").text
    assert not [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
