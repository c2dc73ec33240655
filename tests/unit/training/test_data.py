"""The data order is kept across steps, resumes and numbers of ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.resumable.data import batch_digest, global_batch, rank_batch, step_seed


@given(seed=st.integers(0, 99), world_size=st.sampled_from([1, 2, 3, 4, 6]), step=st.integers(1, 200))
def test_ranks_share_the_global_batch_whatever_their_number(seed: int, world_size: int, step: int) -> None:
    batch = global_batch(seed, step, 12, 100)
    shares = [rank_batch(batch, rank, world_size) for rank in range(world_size)]
    assert sorted(sample for share in shares for sample in share) == sorted(batch)
    assert len({len(share) for share in shares}) == 1


@given(seed=st.integers(0, 99), dataset_size=st.integers(1, 60), batch_size=st.integers(1, 16))
def test_each_epoch_uses_each_sample_once(seed: int, dataset_size: int, batch_size: int) -> None:
    steps = -(-3 * dataset_size // batch_size)
    stream = [sample for step in range(1, steps + 1) for sample in global_batch(seed, step, batch_size, dataset_size)]
    for epoch in range(3):
        assert sorted(stream[epoch * dataset_size : (epoch + 1) * dataset_size]) == list(range(dataset_size))


def test_the_order_of_a_seed_never_changes_between_versions() -> None:
    assert global_batch(1, 1, 8, 5000) == [3052, 4224, 4927, 176, 2368, 111, 2651, 3172]
    assert batch_digest(global_batch(1, 400, 32, 5000)) == "cc43f92e7ebea1ea"


def test_random_numbers_differ_by_step_and_rank() -> None:
    seeds = {step_seed(1, step, rank) for step in range(50) for rank in range(8)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_batch_that_ranks_can_not_share_is_refused() -> None:
    with pytest.raises(ValueError, match="3 ranks can't share a global batch of 8"):
        rank_batch(list(range(8)), 0, 3)
