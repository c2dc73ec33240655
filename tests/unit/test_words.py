"""The product treats every data centre alike: it does not know the one that its own tests run in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for folder in ("components", "sparewheel", "policies")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".json", ".yaml", ".lua"}
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_of_the_product_knows_the_test_data_centre(path: Path) -> None:
    assert not re.search(r"\blab\b|_lab\b|\blab_", path.read_text("utf-8"), re.IGNORECASE)
