"""The pages hold together: links lead somewhere, named files exist, and the first page is read in five minutes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "lab/README.md", ROOT / "training/README.md"]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|lua|json|sh))`")
READ_IN_FIVE_MINUTES = 1250
"""Words, at 250 a minute; pictures and the tree of folders are looked at."""


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    heads = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text("utf-8")):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    there = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.*") if ".git" not in path.parts]
    for name in FILE.findall(page.read_text("utf-8")):
        if name.startswith("build/"):
            continue  # made by what the page tells about
        assert any(path == name or path.endswith(f"/{name}") for path in there), name


def test_the_first_page_is_short_and_has_a_picture_of_a_faults_way() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    assert len(FENCED.sub("", text).split()) <= READ_IN_FIVE_MINUTES
    (picture,) = re.findall(r"^```mermaid\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for stage in ("detected", "fenced", "vetoed", "mended", "drained", "replaced", "closed", "requeued", "resumed"):
        assert stage in picture


def test_every_page_is_reachable_from_the_first_two() -> None:
    entrances = "".join((ROOT / name).read_text("utf-8") for name in ("README.md", "docs/architecture.md"))
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name in entrances, f"nothing leads to {page.name}"
