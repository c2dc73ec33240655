"""The pages in a real browser: nothing runs over, nothing covers anything, nothing of the cluster becomes a script."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from typing import Any

import pytest

from sparewheel.api.remediation import JobRecord
from sparewheel.cli.pages.incident import incident_page
from sparewheel.cli.pages.week import week_page
from sparewheel.cli.week import week_of
from tests.support.browser import Browser
from tests.support.incidents import at
from tests.support.week_world import EVIL, HOUR, NOW, cluster, happened, still_open

HEALED = incident_page(happened("gpu-1-xid-79-1", "gpu-1", 1), at(HOUR + 40))
WAITS_FOR_DAYS = incident_page(still_open("gpu-9-xid-79-2", "gpu-9", 2), NOW)
WEEK = week_page(week_of(cluster(), 7))
PAGES = {"healed": HEALED, "waits for days": WAITS_FOR_DAYS, "week": WEEK}


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """By more than a hair."""
    sides = [
        min(one[edge] + one[size], other[edge] + other[size]) - max(one[edge], other[edge])
        for edge, size in (("x", "width"), ("y", "height"))
    ]
    return all(side > 1 for side in sides)


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("width", [1200, 500])
def test_a_page_fits_its_window_and_its_pictures_can_be_read(browser: Browser, page: str, width: int) -> None:
    seen = browser.look(page, width)
    assert seen["page"] <= seen["window"], "only tables and pictures scroll sideways, each by itself"
    assert seen["pictures"]
    for picture in seen["pictures"]:
        for one, other in combinations([word for word in picture["words"] if word["width"]], 2):
            assert not overlap(one, other), (one["text"], other["text"])
        for one in [part for part in picture["parts"] if part["width"]]:
            assert one["x"] >= picture["x"] - 1, one["text"]
            assert one["x"] + one["width"] <= picture["x"] + picture["width"] + 1, one["text"]


def test_each_stage_is_a_bar_that_begins_and_ends_where_it_did(browser: Browser) -> None:
    seen = browser.look(HEALED)
    labels = [label["text"] for label in seen["labels"]]
    assert labels[:2] == ["node · detected", "notified"]
    assert "job 701 · resumed" in labels
    bars = dict(zip(labels, seen["bars"], strict=True))
    second = bars["node · drained"]["width"] / 10.9
    start = bars["node · detected"]["x"]
    for label, begin, end in (("node · replaced", 1.2, 9.0), ("node · closed", 12.0, 16.0)):
        assert bars[label]["x"] - start == pytest.approx(begin * second, abs=2)
        assert bars[label]["width"] == pytest.approx((end - begin) * second, abs=2)
    assert bars["node · drained"]["kind"] != bars["job 701 · resumed"]["kind"], "tracks are told apart"


def test_what_goes_on_says_so_also_after_days(browser: Browser) -> None:
    seen = browser.look(WAITS_FOR_DAYS)
    open_bars = [bar for bar in seen["bars"] if "open" in bar["kind"]]
    assert len(open_bars) == 1
    assert "goes on" in [took["text"] for took in seen["took"]]
    assert min(bar["width"] for bar in seen["bars"]) >= 2, "half a second of six days is still seen"
    assert "Waits for a spare" in seen["text"]


def test_the_overview_shows_what_needs_a_person_first_and_leads_to_each_incident(browser: Browser) -> None:
    seen = browser.look(WEEK)
    text = seen["text"]
    assert text.index("Needs a person") < text.index("Figures") < text.index("Each incident")
    assert len(seen["marks"]) == 4
    anchors = {link.removeprefix("#") for link in seen["links"]}
    assert anchors <= set(seen["ids"])
    assert len(anchors) == 4
    assert seen["open"] == ["gpu-rack-12-node-107-with-a-long-name-xid-79-4"], "what is open lies open"


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_nothing_of_the_cluster_becomes_a_script_and_nothing_is_fetched(browser: Browser, page: str) -> None:
    assert "<script" not in page
    assert not re.search(r"""(src|href)=["'](?!#)""", page)
    assert "default-src 'none'" in page
    seen = browser.look(page)
    assert seen["scripts"] == 1, "the probe's own"
    if page is not HEALED:
        assert EVIL in seen["text"], "it is shown as what it is"


def luminance(colour: str) -> float:
    values = [int(one) / 255 for one in re.findall(r"\d+", colour)[:3]]
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("night", [False, True])
def test_by_day_and_by_night_the_ink_stands_out(browser: Browser, night: bool) -> None:
    seen = browser.look(WEEK, night=night)
    ink, back = luminance(seen["ink"]), luminance(seen["back"])
    assert (back < ink) is night
    assert (max(ink, back) + 0.05) / (min(ink, back) + 0.05) >= 7


def test_an_incident_with_many_jobs_stays_readable(browser: Browser) -> None:
    record = happened("gpu-1-xid-79-1", "gpu-1", 1)
    first = record.status.jobs[0]
    record.status.jobs = [JobRecord.model_validate({**first.model_dump(), "job_id": 90000 + one}) for one in range(40)]
    seen = browser.look(incident_page(record, at(HOUR + 40)), 1200, 3000)
    assert len(seen["bars"]) == 6 + 40 * 4
    for picture in seen["pictures"]:
        for one, other in pairwise(picture["words"]):
            assert not overlap(one, other), (one["text"], other["text"])
