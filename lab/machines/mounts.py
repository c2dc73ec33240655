"""mount(2) and umount2(2), without a process per mount."""

import ctypes
import os
from pathlib import Path

READ_ONLY = 0x1
NO_SUID = 0x2
REMOUNT = 0x20
BIND = 0x1000
RECURSIVE = 0x4000
PRIVATE = 0x40000
SHARED = 0x100000
DETACH = 0x2

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str | Path, target: Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount; OSError names the target."""
    arguments = (str(source), str(target), kind)
    encoded = [text.encode() for text in arguments]
    if _libc.mount(*encoded, ctypes.c_ulong(flags), options.encode() or None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} ({kind or 'bind'}): {os.strerror(number)}", str(target))


def bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    """Bind mount a folder or file, making the target."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount(source, target, flags=BIND)
    if read_only:
        mount("", target, flags=REMOUNT | BIND | READ_ONLY)


def detach(target: Path) -> None:
    """Lazy unmount."""
    if _libc.umount2(str(target).encode(), DETACH) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"umount: {os.strerror(number)}", str(target))
