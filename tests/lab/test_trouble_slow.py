"""A GPU dies while the API server is slow: nothing is done twice, no other node is touched, it heals. Opt-in.

SPAREWHEEL_TROUBLE_TESTS=1 python -m pytest tests/lab/test_trouble_slow.py
"""

from __future__ import annotations

import os

import pytest

from sparewheel.api.remediation import Remediation
from tests.lab.platform import Platform
from tests.lab.slow_api import controllers, slow
from tests.lab.test_trouble import struck
from tests.lab.trouble import gone_on, lasts
from tests.lab.waiting import eventually

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.environ.get("SPAREWHEEL_TROUBLE_TESTS") != "1", reason="needs SPAREWHEEL_TROUBLE_TESTS=1"),
]


def led(platform: Platform) -> None:
    """One of the controllers holds the lease again."""
    eventually(lambda: platform.leader() in controllers(platform.paths), 60, lambda: f"{platform.leader()} leads")


def acted_once(record: Remediation) -> None:
    """No stage was begun twice."""
    names = [stage.name for stage in record.status.stages]
    assert len(names) == len(set(names)), names


def test_each_request_takes_two_seconds(platform: Platform) -> None:
    with slow(platform.paths, 2):
        job, node, name = struck(platform)
        eventually(lambda: platform.alice.job(job).attempts == 2, 60, platform.slurm_view)
        lasts(20)
    acted_once(gone_on(platform, job, node, name))
    led(platform)


def test_each_request_takes_ten_seconds_for_a_while(platform: Platform) -> None:
    job, (_, node) = platform.running(SAVE_SECONDS=2)
    with slow(platform.paths, 10):
        platform.inject(node)
        lasts(40)
    acted_once(gone_on(platform, job, node, platform.incident(node).metadata.name))
    led(platform)


def test_it_becomes_slow_in_the_middle(platform: Platform) -> None:
    job, node, name = struck(platform, save_seconds=10)
    with slow(platform.paths, 10):
        lasts(30)
    acted_once(gone_on(platform, job, node, name))
    led(platform)


def test_only_the_leaders_requests_are_late(platform: Platform) -> None:
    """What it has sent arrives when the other one leads already."""
    leader = platform.leader()
    job, node, name = struck(platform, save_seconds=10)
    with slow(platform.paths, 10, [leader]):
        acted_once(gone_on(platform, job, node, name))
        assert platform.leader() != leader
    led(platform)
