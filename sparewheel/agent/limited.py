"""A socket with one deadline for all that is done on it: a peer that trickles can't hold its reader for ever."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable


class LimitedSocket:
    """What ``http.client`` uses of a connected socket. ``until``: the reading of the clock after which it times out.

    A socket's own timeout starts anew with each byte; here every operation gets what is left. Raises TimeoutError.
    """

    def __init__(self, inner: socket.socket, monotonic_seconds: Callable[[], float]) -> None:
        self._inner = inner
        self._monotonic_seconds = monotonic_seconds
        self.until = 0.0
        self._readers = 0
        self._closed = False

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._limit()
            view = view[self._inner.send(view) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        if mode != "rb":
            raise ValueError(f"only read, not {mode}")
        self._readers += 1
        return io.BufferedReader(_Reader(self))

    def recv_into(self, buffer: memoryview) -> int:
        self._limit()
        return self._inner.recv_into(buffer)

    def close(self) -> None:
        """As a socket's own: an answer that is still read keeps it open until it is whole."""
        self._closed = True
        self._end()

    def reader_closed(self) -> None:
        self._readers -= 1
        self._end()

    def _end(self) -> None:
        if self._closed and self._readers <= 0:
            self._inner.close()

    def _limit(self) -> None:
        left = self.until - self._monotonic_seconds()
        if left <= 0:
            raise TimeoutError("the request's time is over")
        self._inner.settimeout(left)


class _Reader(io.RawIOBase):
    def __init__(self, source: LimitedSocket) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._source.recv_into(buffer)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._source.reader_closed()
