"""Recorded logs as lines: files, gzip told by its first bytes, standard input. Memory doesn't grow with the log."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from sparewheel.cli.common import CommandError

STDIN: Final = "-"
BLOCK_BYTES: Final = 1 << 16
MAX_LINE_BYTES: Final = 1 << 16
"""Of a longer line only the start is given, though not always as little; a journal's record is a few thousand."""
_GZIP = b"\x1f\x8b"
_JOURNAL = b"LPKSHHRH"


class _Stream(Protocol):
    def peek(self, _size: int, /) -> bytes: ...
    def read1(self, _size: int, /) -> bytes: ...


def _stdin() -> io.BufferedReader[Any]:
    raw: Any = sys.stdin.buffer
    return raw if hasattr(raw, "peek") else io.BufferedReader(raw)


@contextmanager
def opened(name: str) -> Iterator[Callable[[], bytes]]:
    """Gives the log's next block, empty at its end. Raises CommandError for what is no readable text, at any block."""
    try:
        with ExitStack() as stack:
            buffered = _stdin() if name == STDIN else stack.enter_context(Path(name).open("rb"))
            head = buffered.peek(len(_JOURNAL))
            if head.startswith(_JOURNAL):
                raise CommandError(
                    f"{name} is a journal's own file; `journalctl --file {name} -k -o json` makes a log of it"
                )
            stream: _Stream = gzip.GzipFile(fileobj=buffered) if head.startswith(_GZIP) else buffered
            if b"\0" in stream.peek(BLOCK_BYTES):
                raise CommandError(f"{name} is no text; give a log as dmesg or journalctl prints it, plain or gzip")
            yield lambda: stream.read1(BLOCK_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CommandError(f"{name} is damaged gzip ({error}); what comes after that place can't be read") from error
    except OSError as error:
        raise CommandError(
            f"{name} can't be read: {error.strerror or error}; name a log file, or - for input"
        ) from error


def whole_lines(read: Callable[[], bytes]) -> Iterator[bytes]:
    """The log in blocks that end where a line ends."""
    rest = b""
    while block := read():
        whole, end, rest = (rest + block).rpartition(b"\n")
        if end:
            yield whole
        rest = rest[:MAX_LINE_BYTES]
    if rest:
        yield rest
