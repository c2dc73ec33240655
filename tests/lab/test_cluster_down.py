"""`down` leaves nothing behind, and `up` after it starts from nothing."""

from __future__ import annotations

import pytest

from lab.cluster.leftovers import leftovers
from lab.cluster.lifecycle import DataCentre
from lab.paths import Paths


@pytest.mark.wipes_everything
@pytest.mark.timeout(240)
def test_down_leaves_nothing(lab_paths: Paths) -> None:
    centre = DataCentre(lab_paths)
    centre.up()
    assert leftovers(lab_paths) != []
    assert centre.down() == []
    assert not lab_paths.state.exists()
    centre.up()
