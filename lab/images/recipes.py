"""What the layers are made of, as data. A layer's key is a digest of all that decides its content."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FORMAT = 1
"""Raise it when the way layers are made changes."""


@dataclass(frozen=True)
class Copy:
    """A file or folder of the checkout and where it lies in the image (absolute path)."""

    source: str
    target: str
    mode: int = 0o644


@dataclass(frozen=True)
class Verify:
    """A command that must succeed in the finished root file system, and a text that it must print."""

    command: tuple[str, ...]
    prints: str = ""


@dataclass(frozen=True)
class Layer:
    """One layer.

    suite: Debian suite that the root file system is bootstrapped from; only on a lowest layer.
    below: layers that this one is built over, lowest first.
    before: shell text, run as root inside before the packages are installed.
    packages: Debian packages, installed without recommended ones.
    requirements: a hash-pinned requirements file whose wheels are installed for the layer's Python.
    copies: files of the checkout.
    script: shell text, run as root inside, last.
    megabytes: size on disk when built, with its compressed file, for the check of free space.
    """

    name: str
    expected_seconds: float
    megabytes: int
    suite: str | None = None
    below: tuple[Layer, ...] = ()
    before: str = ""
    packages: tuple[str, ...] = ()
    requirements: str | None = None
    copies: tuple[Copy, ...] = ()
    script: str = ""
    verify: tuple[Verify, ...] = ()

    @cached_property
    def key(self) -> str:
        """Hexadecimal digest of the recipe, of the files that it copies and of the layers below."""
        recipe = {
            "format": FORMAT,
            "name": self.name,
            "suite": self.suite,
            "below": [layer.key for layer in self.below],
            "before": self.before,
            "packages": self.packages,
            "requirements": digest_of([REPOSITORY / self.requirements]) if self.requirements else None,
            "copies": [(c.target, c.mode, digest_of(files_of(REPOSITORY / c.source))) for c in self.copies],
            "script": self.script,
        }
        return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def file_name(self) -> str:
        """Name of the layer's files and folder in the cache, without a suffix."""
        return f"{self.name}-{self.key}"


def files_of(source: Path) -> list[Path]:
    """The file, or every file below the folder except what Python leaves there; sorted."""
    if source.is_file():
        return [source]
    found = (path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(path for path in found if path.suffix != ".pyc")


def digest_of(files: list[Path]) -> str:
    """Digest of the names and contents of `files`; a missing one is an error that names it."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(str(path.relative_to(REPOSITORY)).encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
