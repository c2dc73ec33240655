"""Where the toolchain keeps things: nothing of it lies in the checkout."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
REQUIREMENTS = REPOSITORY / "requirements"


def cache_folder() -> Path:
    """The cache: `SPAREWHEEL_CACHE`, by default `~/.cache/sparewheel`."""
    named = os.environ.get("SPAREWHEEL_CACHE")
    return Path(named).absolute() if named else Path.home() / ".cache" / "sparewheel"


def bin_folder() -> Path:
    """The folder of programs; each is a link into `store/` or to the machine's own program."""
    return cache_folder() / "bin"


def store_folder() -> Path:
    """What was built, one folder per tool and pin, so that two checkouts with different pins share the cache."""
    return cache_folder() / "store"


def scratch_folder() -> Path:
    """Half-done work; whatever is found here when a set-up starts is left over from one that was stopped."""
    return cache_folder() / "scratch"
