"""``sparewheel host``: what is printed once the controller has answered, and how long the answer is waited for."""

from __future__ import annotations

import asyncio

import pytest

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import GpuHost, GpuHostSpec, GpuHostStatus, HostPhase, HostRequest, HostVerb
from sparewheel.api.names import ANNOTATION_HOST_ANSWER, ANNOTATION_HOST_REQUEST, NAMESPACE
from sparewheel.cli.commands.host import asked
from sparewheel.cli.common import CommandError
from sparewheel.kube.memory import MemoryKube
from sparewheel.kube.port import GPU_HOST
from tests.support.clocks import START, LoopClock

pytestmark = pytest.mark.looptime
HOST = "gpu-1"
WISH = HostRequest(verb=HostVerb.RELEASE, by="ada", time=START, reason="new riser")


async def waiting(kube: MemoryKube, wait_seconds: float) -> float:
    """How long the command took."""
    clock = LoopClock()
    body = GpuHost(
        metadata=ObjectMeta(name=HOST),
        spec=GpuHostSpec(pool="h100", host=HOST, provider_id=f"sparewheel://{HOST}"),
        status=GpuHostStatus(phase=HostPhase.QUARANTINED),
    )
    kube.put(GPU_HOST, body.to_wire(), NAMESPACE)
    began = clock.monotonic_seconds()
    await asked(kube, clock, HOST, WISH, wait_seconds)
    return clock.monotonic_seconds() - began


async def answer(kube: MemoryKube, after_seconds: float, text: str) -> None:
    await asyncio.sleep(after_seconds)
    annotations = {ANNOTATION_HOST_REQUEST: None, ANNOTATION_HOST_ANSWER: text}
    await kube.merge_patch(GPU_HOST, HOST, {"metadata": {"annotations": annotations}}, NAMESPACE)


async def test_the_answer_is_waited_for_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    kube = MemoryKube()
    took, _ = await asyncio.gather(waiting(kube, 600), answer(kube, 302, "released by ada"))
    assert 302 <= took <= 304
    assert capsys.readouterr().out == "Host gpu-1: released by ada.\n"


async def test_a_refusal_is_an_error() -> None:
    kube = MemoryKube()
    with pytest.raises(CommandError, match=r"^the boot that was quarantined$"):
        await asyncio.gather(waiting(kube, 600), answer(kube, 3, "refused: the boot that was quarantined"))


async def test_an_answer_is_waited_for_no_longer_than_asked() -> None:
    began = asyncio.get_running_loop().time()
    with pytest.raises(CommandError, match=r"not done after 60 s and goes on"):
        await waiting(MemoryKube(), 60)
    assert 60 <= asyncio.get_running_loop().time() - began <= 61


async def test_without_a_wait_it_only_asks(capsys: pytest.CaptureFixture[str]) -> None:
    assert await waiting(MemoryKube(), 0) == 0
    assert capsys.readouterr().out.startswith("Asked; ")
