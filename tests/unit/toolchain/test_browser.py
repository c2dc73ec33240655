"""The browser for the tests of pages: installed only where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.toolchain import debian


@pytest.mark.parametrize("there", [None, "google-chrome", "chromium"])
def test_a_browser_of_the_machine_s_own_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str | None
) -> None:
    installed: list[tuple[str, ...]] = []
    monkeypatch.setattr(debian, "ensure", installed.append)
    monkeypatch.setenv("PATH", str(tmp_path))
    if there is not None:
        (tmp_path / there).touch(mode=0o755)
    debian.ensure_browser()
    assert installed == ([] if there else [debian.BROWSER])
    assert debian.find_browser() == (str(tmp_path / there) if there else None)
