"""What many incidents look at in Slurm, again and again: asked once per interval for all of them."""

from __future__ import annotations

from typing import Final

from sparewheel.slurm.port import Ping, Slurm, SlurmJob, SlurmNode, SlurmReservation
from sparewheel.slurm.shared import Shared

EVERY_SECONDS: Final = 1.0
"""Between two looks lies at least this much, however many ask; the first who asks after a rest is answered at once."""


class Looks:
    """Each answer is to a request that began after the question, so what we wrote before it is in it."""

    def __init__(self, slurm: Slurm) -> None:
        self._jobs = Shared(slurm.jobs, least_rest_seconds=EVERY_SECONDS)
        self._room = Shared(self.see_room, least_rest_seconds=EVERY_SECONDS)
        self._ping = Shared(slurm.ping, rest=0.0)
        self._slurm = slurm

    async def jobs(self) -> list[SlurmJob]:
        """All that Slurm knows. Raises SlurmError."""
        return await self._jobs.get()

    async def ping(self) -> Ping:
        """slurmctld's version; asked at once. Raises SlurmError."""
        return await self._ping.get()

    async def room(self) -> tuple[list[SlurmReservation], list[SlurmNode]]:
        """All reservations, then all nodes. Raises SlurmError."""
        return await self._room.get()

    async def see_room(self) -> tuple[list[SlurmReservation], list[SlurmNode]]:
        """As ``room``, asked at once and for oneself."""
        return await self._slurm.reservations(), await self._slurm.nodes()
