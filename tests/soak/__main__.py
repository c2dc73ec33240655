"""``python -m tests.soak``: many seeded schedules over all cores, or many events through the loop (``--events``)."""

from __future__ import annotations

import argparse
import hashlib
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.player import Result, play
from tests.soak.schedule import Schedule, make_schedule
from tests.soak.shrink import shrink
from tests.soak.summary import Failure, Summary
from tests.soak.throughput import measure

SUMMARY = Path("build/soak/summary.json")
AT_ONCE = 10
"""Schedules that a worker plays before it reports."""
SAY_SECONDS = 30.0
SCHEDULES = 100_000


@dataclass(slots=True)
class Part:
    """What a worker played."""

    start: int
    end: int
    cpu_seconds: float = 0.0
    world_seconds: float = 0.0
    incidents: int = 0
    writes: int = 0
    failures: list[Failure] = field(default_factory=list[Failure])


def play_part(seeds: tuple[int, int]) -> Part:
    part, begun = Part(*seeds), time.process_time()
    for seed in range(*seeds):
        result = play(make_schedule(seed))
        part.world_seconds += result.seconds
        part.incidents += result.incidents
        part.writes += result.writes
        if result.wrongs:
            part.failures.append(_failure(result))
    part.cpu_seconds = time.process_time() - begun
    return part


def _failure(result: Result) -> Failure:
    def fails(schedule: Schedule) -> bool:
        return bool(play(schedule).wrongs)

    small = shrink(result.schedule, fails)
    return Failure(result.schedule.seed, list(play(small).wrongs or result.wrongs), small.to_json())


def soak(summary: Summary, minutes: float | None, processes: int) -> Summary:
    """Play what is left, save after each part; stops when the time is over or a person says so."""
    until = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    said, begun, already = time.monotonic(), time.monotonic(), summary.played
    for part in _parts(summary.left(AT_ONCE), processes):
        summary.add(part.start, part.end)
        summary.cpu_seconds += part.cpu_seconds
        summary.world_seconds += part.world_seconds
        summary.incidents += part.incidents
        summary.writes += part.writes
        summary.failures += part.failures
        summary.save(SUMMARY)
        for failure in part.failures:
            print(f"seed {failure.seed} FAILED\n{Schedule.from_json(failure.shrunk)}", flush=True)
            print("\n".join(f"  {wrong}" for wrong in failure.wrongs), flush=True)
        if time.monotonic() - said > SAY_SECONDS:
            said = time.monotonic()
            pace = (summary.played - already) / (said - begun)
            left = (summary.wanted - summary.played) / pace / 60
            words = f"{len(summary.failures)} failed, {left:.0f} min left"
            print(f"{summary.played} of {summary.wanted}, {words}", flush=True)
        if time.monotonic() > until:
            break
    return summary


def _parts(todo: list[tuple[int, int]], processes: int) -> Iterator[Part]:
    """In processes of their own; those that are left alone when nobody asks for more end with the pool."""
    if processes == 1:
        yield from map(play_part, todo)
        return
    context = multiprocessing.get_context("fork")
    with context.Pool(processes, initializer=_begin_worker) as pool:
        yield from pool.imap_unordered(play_part, todo)


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)


def code_of(*folders: str) -> str:
    """A digest of the sources: a summary of other code is not gone on with."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in Path(folder).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def quiet() -> None:
    """The controllers' own lines would be millions."""
    logger = logging.getLogger("sparewheel")
    logger.setLevel(logging.ERROR)
    logger.propagate = False


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; each schedule has the next")
    parser.add_argument("--minutes", type=float, help="stop after so long; run again to go on")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--play", metavar="FILE", help="play one schedule, as the summary has it, and show it")
    parser.add_argument("--events", type=int, help="send so many reports through the loop instead, and measure")
    arguments = parser.parse_args()
    quiet()
    if arguments.events:
        return measure(arguments.events, arguments.seed)
    if arguments.play:
        return _show(Schedule.from_json(Path(arguments.play).read_text()))
    code = code_of("sparewheel", "tests/soak", "tests/support")
    summary = Summary.load(SUMMARY, arguments.seed, arguments.schedules, code)
    if summary.played:
        print(f"going on after {summary.played} schedules ({SUMMARY})", flush=True)
    try:
        soak(summary, arguments.minutes, arguments.processes)
    except KeyboardInterrupt:
        print("stopped; run it again to go on", flush=True)
    print("\n".join(summary.lines()))
    return 1 if summary.failures else 0


def _show(schedule: Schedule) -> int:
    result = play(schedule)
    played = f"{result.seconds:.0f} s of its time, {result.incidents} incidents, {result.writes} writes"
    print("\n".join([str(schedule), f"{played}, requests {result.requests}", *result.wrongs]))
    print(f"{len(result.wrongs)} wrong")
    return 1 if result.wrongs else 0


if __name__ == "__main__":
    sys.exit(main())
