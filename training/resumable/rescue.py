"""The last save of an attempt, when some ranks may be gone.

`save_together`: all ranks stopped at the same step; each writes its shard, and the others write what a rank that died
meanwhile left out. `save_alone`: no agreement is possible any more (a peer is dead or hangs); a survivor writes the
whole state by itself. Two hosts do so, not more: one of them may be the struck one.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from .checkpoint import SHARED, Checkpoints, Snapshot
from .clock import Clock

POLL_SECONDS = 0.2
STALL_SECONDS = 8.0
"""How long a writer may show no progress before another takes its place: longer than a stutter of shared storage."""

WRITERS = 2


class _Watch:
    """For how long something has stayed the same, by the caller's own clock (clocks of other hosts may be off)."""

    def __init__(self, clock: Clock, look: Callable[[], object]) -> None:
        self._clock = clock
        self._look = look
        self._seen: object = look()
        self._since = clock.now()

    def quiet_seconds(self) -> float:
        seen = self._look()
        if seen != self._seen:
            self._seen, self._since = seen, self._clock.now()
        return self._clock.now() - self._since


def save_together(
    store: Checkpoints, snapshot: Snapshot, rank: int, world_size: int, give_up_at: float, clock: Clock
) -> bool:
    """Write shard `rank`, wait for the others, fill in for the dead. True when the checkpoint is whole.

    `give_up_at`: reading of `clock` at which the grace is over. Raises as `Checkpoints` does.
    """
    store.fence.check()
    if rank in store.missing(snapshot.step, world_size):
        store.write_shard(snapshot, rank, world_size)
    watch = _Watch(clock, lambda: [store.signs_of_writing(snapshot.step, tag) for tag in store.tags(snapshot.step)])
    patience = STALL_SECONDS + min(rank, 8) * POLL_SECONDS  # so that not all survivors take over at once
    while not store.publish(snapshot.step, world_size):
        if clock.now() >= give_up_at:
            return False
        if watch.quiet_seconds() >= patience:
            for index in store.missing(snapshot.step, world_size):
                store.write_shard(snapshot, index, world_size)
        else:
            clock.wait(POLL_SECONDS)
    return True


def save_alone(store: Checkpoints, snapshot: Snapshot, rank: int, give_up_at: float, clock: Clock) -> bool:
    """Make sure that a whole checkpoint of `snapshot.step` is there, written by this rank or by another survivor.

    True when it is there. Raises as `Checkpoints` does.
    """
    store.fence.check()
    clock.wait(min(rank, 8) * POLL_SECONDS)  # lower ranks first
    host = socket.gethostname()
    watches: dict[str, _Watch] = {}
    while not any(store.is_whole(snapshot.step, tag) for tag in store.tags(snapshot.step)):
        if clock.now() >= give_up_at:
            return False
        for tag in set(store.tags(snapshot.step)) - {SHARED}:
            watches.setdefault(tag, _Watch(clock, lambda tag=tag: store.signs_of_writing(snapshot.step, tag)))
        busy = {tag for tag, watch in watches.items() if watch.quiet_seconds() < STALL_SECONDS}
        if host in busy or len(busy) >= WRITERS:
            clock.wait(POLL_SECONDS)
            continue
        store.write_shard(snapshot, 0, 1, tag=host)
        return store.publish(snapshot.step, 1, tag=host)
    return True
