"""Which processes a GPU's fault strikes."""

from __future__ import annotations

import pytest

from lab.machines.inject import gpus_of


@pytest.mark.parametrize(
    ("environment", "gpus"),
    [
        ({"SLURM_STEP_GPUS": "0,1,2,3,4,5,6,7"}, set(range(8))),
        ({"SLURM_STEP_GPUS": "4,5", "CUDA_VISIBLE_DEVICES": "0,1"}, {4, 5}),
        ({"SLURM_JOB_GPUS": "2"}, {2}),
        ({"CUDA_VISIBLE_DEVICES": "1,3", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, {3}),
        ({"SLURM_STEP_GPUS": "0,1,2,3,4,5,6,7", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, {1, 5}),
        ({"CUDA_VISIBLE_DEVICES": "GPU-5f0e"}, set[int]()),
        ({}, set[int]()),
    ],
)
def test_gpus_are_shared_out_among_the_ranks_of_a_host(environment: dict[str, str], gpus: set[int]) -> None:
    assert gpus_of(environment) == gpus
