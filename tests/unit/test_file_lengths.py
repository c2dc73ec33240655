"""A file that no longer fits on a few screens is two subjects: none has more than three hundred lines."""

from __future__ import annotations

from pathlib import Path

MOST_LINES = 300
ROOT = Path(__file__).parents[2]
FOLDERS = ("bench", "components", "lab", "pipelines", "policies", "sparewheel", "stacks", "tests", "training")


def test_no_file_of_python_is_longer() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 500
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in files}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}
