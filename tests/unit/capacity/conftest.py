"""What tests of capacity share."""

from __future__ import annotations

import pytest

from tests.support.pool_world import World, new_world


@pytest.fixture
def world() -> World:
    return new_world()
