"""``sparewheel inject``: a GPU that the node does not have is refused before anything changes."""

from __future__ import annotations

import pytest

from sparewheel.cli.commands.inject import check_gpu
from sparewheel.cli.common import CommandError
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import NODE, NODE_HEALTH


def cluster(capacity: str | None = "8", expected: int | None = None) -> MemoryKube:
    kube = MemoryKube()
    counted = {} if capacity is None else {"nvidia.com/gpu": capacity}
    kube.put(NODE, {"metadata": {"name": "gpu-3"}, "status": {"capacity": counted}})
    if expected is not None:
        kube.put(NODE_HEALTH, {"metadata": {"name": "gpu-3"}, "status": {"gpus": {"expected": expected}}})
    return kube


@pytest.mark.parametrize(
    ("kube", "gpu", "has"),
    [
        (cluster(), 99, "GPUs 0 to 7"),
        (cluster(), 8, "GPUs 0 to 7"),
        (cluster(capacity=None, expected=4), 4, "GPUs 0 to 3"),
        (cluster(capacity="1"), 1, "GPU 0 alone"),
    ],
)
async def test_a_gpu_that_is_not_there(kube: MemoryKube, gpu: int, has: str) -> None:
    with pytest.raises(CommandError, match=f"node gpu-3 has {has}, no GPU {gpu}"):
        await check_gpu(kube, "gpu-3", gpu)


@pytest.mark.parametrize(
    ("kube", "gpu"),
    [
        (cluster(), 7),
        (cluster(capacity="6", expected=8), 7),  # two GPUs are lost already
        (cluster(capacity=None), 5),  # nobody counted them yet
    ],
)
async def test_a_gpu_that_is_there_or_may_be(kube: MemoryKube, gpu: int) -> None:
    await check_gpu(kube, "gpu-3", gpu)
