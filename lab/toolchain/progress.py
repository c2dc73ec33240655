"""Steps with elapsed and expected time: Rich on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

PLAIN_INTERVAL_SECONDS = 30.0


def duration(seconds: float) -> str:
    """A duration as people say it: `8 s`, `2 min 05 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 100 else f"{whole // 60} min {whole % 60:02d} s"


@contextmanager
def step(title: str, expected_seconds: float) -> Generator[None]:
    """Show `title` with the time it has taken and the time it usually takes until the block ends."""
    started = time.monotonic()
    with _live(title, expected_seconds, started):
        yield
    _say(f"  done: {title} ({duration(time.monotonic() - started)})")


def note(text: str) -> None:
    """One line to the person at the terminal."""
    _say(text)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _live(title: str, expected_seconds: float, started: float) -> AbstractContextManager[object]:
    if sys.stderr.isatty():
        shown = _rich(title, expected_seconds)
        if shown is not None:
            return shown
    return _plain(title, expected_seconds, started)


def _rich(title: str, expected_seconds: float) -> AbstractContextManager[object] | None:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    except ImportError:
        return None
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn(f"of about {duration(expected_seconds)}"),
        console=Console(stderr=True),
        transient=True,
    )
    progress.add_task(title, total=max(expected_seconds, 1.0))
    return _moving(progress, expected_seconds)


@contextmanager
def _moving(progress: AbstractContextManager[object], expected_seconds: float) -> Generator[None]:
    """A bar that follows the clock: a build says nothing of how far it is."""
    from rich.progress import Progress

    assert isinstance(progress, Progress)
    stop = threading.Event()
    started = time.monotonic()

    def follow() -> None:
        task = progress.task_ids[0]
        while not stop.wait(0.5):
            progress.update(task, completed=min(time.monotonic() - started, 0.98 * expected_seconds))

    thread = threading.Thread(target=follow, daemon=True)
    with progress:
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@contextmanager
def _plain(title: str, expected_seconds: float, started: float) -> Generator[None]:
    stop = threading.Event()
    _say(f"{title} (about {duration(expected_seconds)})")

    def repeat() -> None:
        while not stop.wait(PLAIN_INTERVAL_SECONDS):
            spent = duration(time.monotonic() - started)
            _say(f"  still at it: {title}: {spent} of about {duration(expected_seconds)}")

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
