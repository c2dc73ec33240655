"""Plays one schedule: two controllers, the world, the events; then what is left is brought to its end and judged."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sparewheel.api.names import NAMESPACE
from sparewheel.api.remediation_policy import Backlog, RemediationPolicyStatus
from sparewheel.kube.port import REMEDIATION_POLICY
from sparewheel.remediation.controller.loop import Controller
from sparewheel.remediation.decide.breaker import closed
from sparewheel.remediation.decide.record import is_open
from tests.soak import happen, judge
from tests.soak.schedule import Event, Schedule
from tests.soak.watched import watched_controller
from tests.soak.wire import Chaos
from tests.soak.witness import Witness
from tests.soak.world import JumpingClock, SoakWorld
from tests.support import timeloop
from tests.support.mortal import Life

SETTLING_SECONDS = 25.0
CALM_SECONDS = 40.0
"""Nothing may happen for this long once all is done."""
END_SECONDS = 2400.0
"""Everything is done this long after the last event, whatever it was."""
TROUBLES = frozenset({"flaky", "outage", "slow", "watch stalls", "watch loses", "watch repeats", "lease trouble"})


@dataclass(frozen=True, slots=True)
class Result:
    schedule: Schedule
    wrongs: tuple[str, ...]
    seconds: float
    """Of the world's own time."""
    writes: int
    incidents: int
    requests: str
    """A digest of all requests to the API server, in their order."""


@dataclass(slots=True)
class Seat:
    """The place of one controller; whoever dies in it is followed by another."""

    name: str
    clock: JumpingClock = field(default_factory=JumpingClock)
    life: Life = field(default_factory=Life)
    controller: Controller | None = None
    task: asyncio.Task[None] | None = None
    lives: int = 0


class _Bugs(logging.Handler):
    """An error that nobody foresaw is caught by the loop, logged and tried again: here it is a finding."""

    def __init__(self, found: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            lines = traceback.format_exception(record.exc_info[1])
            self._found(f"{record.getMessage()}: {''.join(lines)[-1500:]}")


class Player:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.world = SoakWorld.of(schedule.shape)
        clocks_right = not any(event.kind == "clock jumps" for event in schedule.events)
        self.witness = Witness(self.world, clocks_right=clocks_right)
        self.chaos = Chaos(schedule.seed)
        self.seats = [Seat("a"), Seat("b")]

    async def play(self) -> Result:
        bugs = _Bugs(self.world.truth.wrong)
        logger = logging.getLogger("sparewheel")
        logger.addHandler(bugs)
        physics = asyncio.create_task(self._physics())
        for seat in self.seats:
            self._start(seat)
        try:
            await self._set_up()
            await self._happen()
            await self._end()
        finally:
            logger.removeHandler(bugs)
            for task in (physics, *(seat.task for seat in self.seats)):
                await _stop(task)
        judge.judge(self.world)
        truth, time = self.world.truth, asyncio.get_running_loop().time()
        writes, incidents = len(self.world.kube.writes), len(self.world.bodies())
        requests = hashlib.sha256(repr([(c.verb, c.resource.kind, c.name) for c in self.world.kube.calls]).encode())
        wrongs = tuple(dict.fromkeys(truth.wrongs))
        return Result(self.schedule, wrongs, time, writes, incidents, requests.hexdigest()[:16])

    async def _physics(self) -> None:
        try:
            await self.world.run()
        except Exception as error:
            self.world.truth.wrong(f"the simulator broke: {''.join(traceback.format_exception(error))[-1500:]}")
            raise

    # ------------------------------------------------------------------ controllers
    def _start(self, seat: Seat) -> None:
        seat.life, seat.lives = Life(), seat.lives + 1
        seat.controller = watched_controller(
            self.world,
            self.witness,
            f"{seat.name}-{seat.lives}",
            clock=seat.clock,
            life=seat.life,
            chaos=self.chaos,
        )
        seat.task = asyncio.create_task(seat.controller.run())

    async def _kill(self, fields: dict[str, Any]) -> None:
        """The leader dies at one of its next writes and comes back after a while."""
        seat = next((one for one in self.seats if one.controller is not None and one.controller.leading()), None)
        if seat is None:
            return
        life = seat.life
        life.when, life.die_at = fields["when"], len(life.writes) + int(fields["writes"])
        with suppress(TimeoutError):
            async with asyncio.timeout(60.0):
                await life.dead.wait()
        life.dead.set()
        await _stop(seat.task)
        await asyncio.sleep(float(fields["back_after"]))
        self._start(seat)

    # ------------------------------------------------------------------ the play
    async def _set_up(self) -> None:
        """All workers registered, a leader; the jobs begin with the first events."""
        async with asyncio.timeout(120.0):
            while len(self.world.slurm.node_table) < self.world.workers or not self._leading():  # noqa: ASYNC110
                await asyncio.sleep(0.25)
        await asyncio.sleep(5.0)

    def _leading(self) -> bool:
        return any(seat.controller is not None and seat.controller.leading() for seat in self.seats)

    async def _happen(self) -> None:
        start, kills = asyncio.get_running_loop().time(), list[asyncio.Task[None]]()
        for event in self.schedule.events:
            await asyncio.sleep(max(0.0, start + event.at - asyncio.get_running_loop().time()))
            if event.kind in TROUBLES:
                self._trouble(event)
            elif event.kind == "watches end":
                self.world.kube.end_watches(expire=event.fields["expire"])
            elif event.kind == "clock jumps":
                seat = next(seat for seat in self.seats if seat.name == event.fields["who"])
                seat.clock.ahead_seconds += event.fields["by"]
            elif event.kind == "kill":
                kills.append(asyncio.create_task(self._kill(event.fields)))
            else:
                happen.happen(self.world, event)
        await asyncio.gather(*kills)
        last = max((event.fields.get("seconds", 0.0) for event in self.schedule.events), default=0.0)
        await asyncio.sleep(SETTLING_SECONDS + float(last))

    def _trouble(self, event: Event) -> None:
        self.chaos.begin(event)
        if event.kind == "watch loses":  # what was lost is found again when the server ends the watch
            happen.later(event.fields, lambda: self.world.kube.end_watches(expire=True))

    # ------------------------------------------------------------------ the end
    async def _end(self) -> None:
        """Trouble is over, people do what they were called for, and then all must come to its end."""
        self.chaos.end_all()
        for _ in range(4):
            happen.add_spare(self.world)
        deadline, calm = asyncio.get_running_loop().time() + END_SECONDS, 0.0
        while calm < CALM_SECONDS:
            await self._people()
            if asyncio.get_running_loop().time() > deadline:
                self.world.truth.wrong("it does not come to an end: " + "; ".join(judge.unfinished(self.world)))
                return
            await asyncio.sleep(1.0)
            calm = 0.0 if judge.unfinished(self.world) else calm + 1.0

    async def _people(self) -> None:
        world = self.world
        for node in world.actives():
            happen.gone(world, f"eval-{node}")
        world.kube.blocked_evictions.clear()
        world.capacity.can_power = True
        for name in set(world.truth.asked) - world.truth.lost:
            if not world.truth.ill(name):
                world.faults[name] = []  # cordon only: its fault is repaired where it stands
        for host in world.capacity.hosts.values():
            host.reachable = True
        happen.make_whole(world)
        await self._resume_called_off()
        await self._close_breaker()

    async def _resume_called_off(self) -> None:
        """A person looked at a host that says nothing any more, and no rank is left there."""
        for record in self.world.records():
            if is_open(record) and record.status.waiting_for.endswith("or a person resumes it (called off)"):
                for name in record.status.owned.slurm_down:
                    self.world.slurm.node_table[name].left.clear()
                    await self.world.slurm.set_node_state(name, ["RESUME"], "")

    async def _close_breaker(self) -> None:
        world = self.world
        policy = world.kube.peek(REMEDIATION_POLICY, "default", NAMESPACE) or {}
        status = RemediationPolicyStatus.model_validate(policy.get("status", {}))
        if not status.breaker_open:
            return
        self.witness.breaker_closed = asyncio.get_running_loop().time()
        status = closed(status, "kim", "a switch", Backlog.RESUME, world.clock.now())
        patch = {"status": status.model_dump(mode="json", by_alias=True, exclude={"notify_test"})}
        await world.kube.merge_patch(REMEDIATION_POLICY, "default", patch, NAMESPACE, subresource="status")


async def _stop(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task


def play(schedule: Schedule) -> Result:
    """Play a schedule from its beginning to its end, on a loop of its own."""
    return timeloop.run(_play(schedule))


async def _play(schedule: Schedule) -> Result:
    return await Player(schedule).play()
