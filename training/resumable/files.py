"""Files that are whole or absent, whatever kills the writer."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHUNK_BYTES = 4 * 1024 * 1024
PART_MARK = ".part-"

Pace = Callable[[int, int], None]
"""Called after each chunk with (bytes written, bytes in all); may wait, may raise."""


def write_whole(path: Path, payload: bytes, *, pace: Pace | None = None, chunk_bytes: int = CHUNK_BYTES) -> None:
    """Put `payload` at `path` by temporary file, flush, fsync, rename and fsync of the folder.

    A reader sees the old content or the new, never a part; after return a power cut doesn't lose it.
    """
    part = path.with_name(f"{path.name}{PART_MARK}{socket.gethostname()}-{os.getpid()}")
    try:
        with part.open("wb") as file:
            for start in range(0, len(payload), chunk_bytes) or (0,):
                file.write(payload[start : start + chunk_bytes])
                file.flush()
                if pace is not None:
                    pace(min(start + chunk_bytes, len(payload)), len(payload))
            os.fsync(file.fileno())
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """The same for a small JSON object; keys sorted, so that equal content is equal bytes."""
    write_whole(path, json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """The object at `path`; None where there is no such file or it isn't a JSON object."""
    try:
        content: object = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def make_folder(path: Path) -> None:
    """Make `path` and its parents last: each new folder's parent is synced."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Make names in the folder `path` last: without it a rename may be undone by a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(payload: bytes | memoryview) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(payload).hexdigest()
