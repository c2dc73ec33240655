"""A common disk that is a file system of its own, so that it can be full without filling the machine's."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.cluster.shell import run
from lab.paths import Paths

SIZE_BYTES = 3 * 2**30
RESERVED_PERCENT = 20
BLOCK_BYTES = 4096
FILLER = ".filler"


@dataclass(frozen=True, slots=True)
class CommonDisk:
    """Space is taken by a file without content: it costs the machine nothing."""

    folder: Path

    @contextmanager
    def full(self) -> Iterator[None]:
        """Nobody can write one more block."""
        yield from self._filled(reserve=False)

    @contextmanager
    def full_for_users(self) -> Iterator[None]:
        """As a quota that is used up: only those for whom the reserve is can write."""
        yield from self._filled(reserve=True)

    def _filled(self, *, reserve: bool) -> Iterator[None]:
        apart = self.folder.stat().st_dev != self.folder.parent.stat().st_dev
        assert apart, f"{self.folder} is no file system of its own; the machine's disk is not filled"
        filler = self.folder / FILLER
        try:
            with filler.open("wb") as file:
                self._take(file.fileno(), reserve=reserve)
            yield
        finally:
            filler.unlink(missing_ok=True)

    def _take(self, descriptor: int, *, reserve: bool) -> None:
        taken, piece = 0, SIZE_BYTES
        while piece >= BLOCK_BYTES:
            state = os.statvfs(self.folder)
            left = (state.f_bavail if reserve else state.f_bfree) * state.f_frsize
            piece = min(piece, left // BLOCK_BYTES * BLOCK_BYTES)
            if not piece:
                return
            try:
                os.posix_fallocate(descriptor, taken, piece)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                piece //= 2
                continue
            taken += piece


@contextmanager
def own_file_system(paths: Paths, reserved_for_user: int, reserved_for_group: int) -> Iterator[CommonDisk]:
    """Before the hosts boot; they keep it until they end. Part of it is for one user and one group alone."""
    paths.common.mkdir(parents=True)
    image = paths.state / "common.img"
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    run(["mkfs.ext4", "-q", "-m", str(RESERVED_PERCENT), str(image)])
    options = f"loop,resuid={reserved_for_user},resgid={reserved_for_group}"
    run(["mount", "-o", options, str(image), str(paths.common)])
    try:
        yield CommonDisk(paths.common)
    finally:
        run(["umount", "--lazy", str(paths.common)])
