"""Many askers share a list, and never one that began before they asked."""

from __future__ import annotations

import asyncio
import gc
from weakref import ref

import pytest

from sparewheel.slurm.shared import Shared


class Source:
    """Answers with the number of the request, when let go."""

    def __init__(self) -> None:
        self.asked = 0
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def ask(self) -> int:
        self.asked += 1
        number = self.asked
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return number


async def started(*works: asyncio.Task[int]) -> None:
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(work.done() for work in works)


async def test_two_hundred_who_ask_during_a_list_share_the_next() -> None:
    source = Source()
    shared = Shared(source.ask)
    first = asyncio.create_task(shared.get())
    await started(first)
    late = [asyncio.create_task(shared.get()) for _ in range(200)]
    await started(*late)
    source.gate.set()
    assert await first == 1
    assert set(await asyncio.gather(*late)) == {2}
    assert source.asked == 2
    assert await shared.get() == 3


@pytest.mark.looptime
async def test_however_many_ask_one_after_the_other_it_is_asked_once_per_interval() -> None:
    source = Source()
    source.gate.set()
    shared = Shared(source.ask, least_rest_seconds=1.0)
    begun = asyncio.get_running_loop().time()

    async def asks_again() -> None:
        while asyncio.get_running_loop().time() < begun + 10:
            await shared.get()
            await asyncio.sleep(0.1)

    await asyncio.gather(*(asks_again() for _ in range(50)))
    assert 9 <= source.asked <= 12


async def test_an_error_goes_to_all_who_share_it_and_to_nobody_later() -> None:
    source = Source()
    shared = Shared(source.ask)
    source.gate.set()
    source.error = RuntimeError("no answer")
    answers = await asyncio.gather(shared.get(), shared.get(), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["no answer", "no answer"]
    source.error = None
    assert await shared.get() == 2


async def test_one_asker_who_gives_up_takes_nothing_from_the_others() -> None:
    source = Source()
    shared = Shared(source.ask)
    gone, stays = asyncio.create_task(shared.get()), asyncio.create_task(shared.get())
    await started(gone, stays)
    gone.cancel()
    source.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert await stays == 1


@pytest.mark.looptime
@pytest.mark.parametrize(("took_seconds", "rest_seconds"), [(0.2, 0.6), (1.0, 3.0), (15.0, 5.0), (600.0, 5.0)])
async def test_the_rest_grows_with_what_the_list_took_up_to_a_limit(took_seconds: float, rest_seconds: float) -> None:
    began: list[float] = []
    loop = asyncio.get_running_loop()

    async def ask() -> None:
        began.append(loop.time())
        await asyncio.sleep(took_seconds)
        if len(began) == 1:
            raise TimeoutError("no answer")  # what failed after a long time rests no longer than what succeeded

    shared = Shared(ask)
    with pytest.raises(TimeoutError):
        await shared.get()
    await shared.get()
    assert began[1] - began[0] - took_seconds == pytest.approx(rest_seconds, abs=0.01)  # pyright: ignore[reportUnknownMemberType]


async def test_an_answer_is_held_by_those_who_asked_alone() -> None:
    """Ten thousand nodes and their jobs take as much as the caches."""

    class Answer:
        pass

    async def ask() -> Answer:
        return Answer()

    shared = Shared(ask)
    held = ref(await shared.get())
    await asyncio.sleep(0)
    gc.collect()
    assert held() is None
