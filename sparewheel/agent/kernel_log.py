"""Reads new records of the kernel log: ``/dev/kmsg``, or a file that holds records of the same form."""

from __future__ import annotations

import errno
import logging
import os
import stat
from pathlib import Path
from typing import Protocol

log = logging.getLogger(__name__)

READ_BYTES = 8192
"""One read of /dev/kmsg returns one record; the kernel's records are smaller than this (PRINTKRB_RECORD_MAX)."""


READ_RECORDS = 4096
CHUNK_BYTES = 256 * 1024
"""How much one call returns at most, so that a flood fills no memory; the next call goes on."""


class KernelLog(Protocol):
    """Yields what came since the last call, at most a chunk of it; never blocks."""

    def read_lines(self) -> list[str]:
        """Empty when there is nothing more for now. Raises OSError when the log cannot be read."""
        ...


class KmsgDevice:
    """The device: one record a read, EAGAIN at the end, EPIPE where old records were overwritten."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read_lines(self) -> list[str]:
        lines: list[str] = []
        while len(lines) < READ_RECORDS:
            try:
                record = os.read(self._descriptor, READ_BYTES)
            except OSError as error:
                if error.errno == errno.EPIPE:
                    log.warning("%s: records were overwritten before they were read; faults may be missing", self._path)
                    continue
                if error.errno == errno.EAGAIN:
                    return lines
                raise
            if not record:
                return lines
            lines.append(record.decode("utf-8", "replace").split("\n", 1)[0])
        return lines


class KmsgFile:
    """A file that grows. A new file under the name, or a shorter one, is read from its start.

    Of a line longer than any record of the kernel only the start is given.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = -1
        self._offset = 0
        self._rest = b""

    def read_lines(self) -> list[str]:
        lines: list[str] = []
        descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if status.st_ino != self._inode or status.st_size < self._offset:
                self._inode, self._offset, self._rest = status.st_ino, 0, b""
            while not lines and self._offset < status.st_size:
                lines = self._lines_of(os.pread(descriptor, CHUNK_BYTES, self._offset))
        finally:
            os.close(descriptor)
        return lines

    def _lines_of(self, data: bytes) -> list[str]:
        self._offset += len(data)
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:READ_BYTES]
        return [line[:READ_BYTES].decode("utf-8", "replace") for line in whole if line]


def open_kernel_log(path: Path) -> KernelLog:
    """The reader for what stands at ``path``. Raises OSError when a device cannot be opened."""
    if path.exists() and stat.S_ISCHR(path.stat().st_mode):
        return KmsgDevice(path)
    return KmsgFile(path)
