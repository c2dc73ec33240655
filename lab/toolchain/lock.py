"""One set-up at a time per cache: the second waits and then finds the work done."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager

from lab.toolchain import progress
from lab.toolchain.paths import cache_folder


@contextmanager
def cache_lock() -> Generator[None]:
    """Hold the cache's lock; the kernel lets go of it when the process ends, however it ends."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            holder = handle.read().strip() or "unknown"
            progress.note(f"Another set-up (process {holder}) works on {folder}; waiting for it to end.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield
