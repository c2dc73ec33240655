"""The browser that looks at the pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.browser import Browser, find


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    program = find()
    if program is None:
        pytest.fail("no Chromium on the PATH; run `make test-pages`, which installs it")
    return Browser(program, tmp_path)
