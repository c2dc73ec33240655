"""The browser that looks at the pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.toolchain.debian import find_browser
from tests.support.browser import Browser


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    program = find_browser()
    if program is None:
        pytest.fail("no Chromium on the PATH; run `make test-pages`, which installs it")
    return Browser(program, tmp_path)
