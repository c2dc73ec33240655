"""A user more in the stack's file: the login node and the workers know her within a minute, and no job notices.

Opt-in, for its two further `pulumi up`: SPAREWHEEL_USER_TESTS=1 python -m pytest tests/lab/test_users.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import stack
from lab.demo.researcher import Researcher
from lab.machines.ssh import make_key
from tests.lab.platform import GRACE_SECONDS, Platform, ssh_works

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.environ.get("SPAREWHEEL_USER_TESTS") != "1", reason="needs SPAREWHEEL_USER_TESTS=1"),
]
WORKS_SECONDS = 60
UID = 20003


@pytest.fixture
def carol(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Iterator[Researcher]:
    """Whoever asks for her has not let her in yet; she is out again afterwards."""
    key = make_key(stack.user_key(platform.paths, "carol"), "carol@data-centre")

    def with_her(config: stack.Document, chosen: Path) -> None:
        as_before(config, chosen)
        config["sparewheel:users"].append({"name": "carol", "uid": UID, "groups": ["research"], "ssh_keys": [key]})

    as_before = stack.spares_as_chosen
    with monkeypatch.context() as patch:
        patch.setattr(stack, "spares_as_chosen", with_her)
        yield Researcher(platform.paths, "carol")
    stack.up(platform.paths, grace_seconds=GRACE_SECONDS)


def test_a_new_user_works_within_a_minute_and_no_job_notices(platform: Platform, carol: Researcher) -> None:
    job, _ = platform.running()
    stack.up(platform.paths, grace_seconds=GRACE_SECONDS)
    Platform.awaiting("carol can log in", lambda: ssh_works(carol), WORKS_SECONDS, lambda: "ssh refuses her")
    assert platform.alice.job(job).state == "RUNNING"
    assert platform.alice.job(job).attempts == 1
    platform.alice.ssh(f"scancel {job}")
    assert carol.ssh("srun -N 2 --gres=gpu:8 sh -c 'touch ~/$(hostname); id -u'").split() == [str(UID)] * 2
    assert len(list(carol.home().iterdir())) >= 2, "her home is the same everywhere"
