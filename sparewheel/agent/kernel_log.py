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


class KernelLog(Protocol):
    """Yields what came since the last call; never blocks."""

    def read_lines(self) -> list[str]: ...


class KmsgDevice:
    """The device: one record a read, EAGAIN at the end, EPIPE where old records were overwritten."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read_lines(self) -> list[str]:
        lines: list[str] = []
        while True:
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


class KmsgFile:
    """A file that grows. A new file under the name, or a shorter one, is read from its start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = -1
        self._offset = 0
        self._rest = b""

    def read_lines(self) -> list[str]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return []
        try:
            status = os.fstat(descriptor)
            if status.st_ino != self._inode or status.st_size < self._offset:
                self._inode, self._offset, self._rest = status.st_ino, 0, b""
            if status.st_size == self._offset:
                return []
            data = os.pread(descriptor, status.st_size - self._offset, self._offset)
        finally:
            os.close(descriptor)
        self._offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole if line]


def open_kernel_log(path: Path) -> KernelLog:
    """The reader for what stands at ``path``. Raises OSError when a device cannot be opened."""
    if path.exists() and stat.S_ISCHR(path.stat().st_mode):
        return KmsgDevice(path)
    return KmsgFile(path)
