"""Each test of this tier runs on an event loop of its own, whose time jumps to the next timer."""

from __future__ import annotations

import pytest

from tests.support.timeloop import TimeLoop


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, type[TimeLoop]]:
    assert item.get_closest_marker("looptime") is None, "that mark has a time of its own, which would stand still here"
    return {"simulated time": TimeLoop}
