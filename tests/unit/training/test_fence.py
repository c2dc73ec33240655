"""The newest attempt owns the run, in any order of arrival."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.resumable.attempt import Attempt
from training.resumable.fence import Fence, FencedError

ATTEMPTS = st.builds(Attempt, st.integers(0, 30), st.integers(0, 12))


@given(arrivals=st.lists(ATTEMPTS, min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_only_the_newest_so_far_passes(tmp_path_factory: pytest.TempPathFactory, arrivals: list[Attempt]) -> None:
    run_dir = tmp_path_factory.mktemp("run")
    newest: Attempt | None = None
    for attempt in arrivals:
        fence = Fence(run_dir, attempt)
        if newest is None or attempt >= newest:
            fence.take()
            newest = attempt
        else:
            with pytest.raises(FencedError, match=newest.name):
                fence.take()
    for attempt in arrivals:
        if attempt == newest:
            Fence(run_dir, attempt).check()
        else:
            with pytest.raises(FencedError):
                Fence(run_dir, attempt).check()


@given(attempt=ATTEMPTS)
def test_a_name_stands_for_one_attempt(attempt: Attempt) -> None:
    assert Attempt.parse(attempt.name) == attempt


def test_a_job_of_ten_attempts_is_ordered_by_number() -> None:
    assert Attempt(1, 10) > Attempt(1, 9)
    assert Attempt(2, 0) > Attempt(1, 10)


def test_the_attempt_comes_from_slurm() -> None:
    assert Attempt.from_environment({"SLURM_JOB_ID": "42"}) == Attempt(42, 0)
    assert Attempt.from_environment({"SLURM_JOB_ID": "42", "SLURM_RESTART_COUNT": "3"}) == Attempt(42, 3)
    assert Attempt.from_environment({}) == Attempt(0, 0)
