"""A folder as a layer's tar: sorted, without what only the building machine has, deletions as whiteouts."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
# Contents that a container gets from elsewhere or that only help apt; the folders themselves stay.
EMPTIED = (
    "dev",
    "proc",
    "sys",
    "tmp",
    "var/tmp",
    "var/cache/apt",
    "var/cache/debconf",
    "var/lib/apt/lists",
    "var/log/apt",
)
DROPPED = ("etc/hostname", "etc/resolv.conf", "var/log/dpkg.log", "var/log/bootstrap.log", "var/log/alternatives.log")


def add_tree(tar: tarfile.TarFile, root: Path) -> None:
    """Add everything below `root` that belongs into an image."""
    for path in walk(root):
        name = path.relative_to(root).as_posix()
        status = path.lstat()
        if is_whiteout(status):
            parent, _, base = name.rpartition("/")
            _add_empty(tar, f"{parent}/{WHITEOUT}{base}".lstrip("/"))
            continue
        info = tar.gettarinfo(str(path), arcname=name)
        info.mtime = int(info.mtime)
        info.uname = info.gname = ""
        if info.isreg():
            with path.open("rb") as content:
                tar.addfile(info, content)
        else:
            tar.addfile(info)
        if stat.S_ISDIR(status.st_mode) and is_opaque(path):
            _add_empty(tar, f"{name}/{OPAQUE}")


def walk(root: Path) -> Iterator[Path]:
    """Paths below `root`, parents first, sorted; sockets are left out, as tar can't hold them."""
    pending = [root]
    while pending:
        folder = pending.pop()
        children = sorted(folder.iterdir())
        for child in children:
            name = child.relative_to(root).as_posix()
            if name in DROPPED or stat.S_ISSOCK(child.lstat().st_mode):
                continue
            yield child
            if child.is_dir() and not child.is_symlink() and name not in EMPTIED:
                pending.append(child)


def is_whiteout(status: os.stat_result) -> bool:
    """Overlayfs says "deleted" with a character device 0/0."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_opaque(folder: Path) -> bool:
    """Overlayfs says "nothing of the layers below shows here" with an attribute."""
    try:
        return os.getxattr(folder, "trusted.overlay.opaque") == b"y"
    except OSError:
        return False


def _add_empty(tar: tarfile.TarFile, name: str) -> None:
    info = tarfile.TarInfo(name)
    info.mode = 0o644
    tar.addfile(info)
