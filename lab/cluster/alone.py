"""One command at a time changes the data centre; a second one waits and says so."""

import contextlib
import fcntl
from collections.abc import Iterator

from lab.paths import Paths
from lab.toolchain.progress import note


class Alone:
    """A lock over the whole data centre that its holder may take again. It lies in the cache, which `down` keeps."""

    def __init__(self, paths: Paths) -> None:
        self._file = paths.cache / f"{paths.run.name}.lock"
        self._depth = 0

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Hold the lock for a block."""
        if self._depth:
            yield
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                note("another command changes the data centre; waiting for it to end")
                fcntl.flock(file, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
