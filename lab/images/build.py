"""Build what is missing: layers bottom up, then the archives. Runs in a mount and process namespace of its own."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lab.images import chroot
from lab.images.archive import index
from lab.images.catalogue import ARCHIVES, Archive, layers_of
from lab.images.pack import pack_archive, pack_tree
from lab.images.recipes import REPOSITORY, Layer, files_of
from lab.images.store import Store, now, remove
from lab.toolchain import progress
from lab.toolchain.errors import ToolchainError
from lab.toolchain.process import run

_PLATFORMS = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux_2_12", "manylinux2010")
_PYTHON_PACKAGES = "usr/local/lib/python3.11/dist-packages"
_NEARLY_FULL_BYTES = 30 * 2**20
_RESERVE_MEGABYTES = 1000
"""For the archives and for what packages need while they are unpacked."""


def diff_ids(store: Store, archives: tuple[Archive, ...] = ARCHIVES) -> dict[str, str]:
    """Digests of the layers that are there, by key."""
    found = ((layer, store.diff_id(layer)) for archive in archives for layer in layers_of(archive))
    return {layer.key: diff_id for layer, diff_id in found if diff_id is not None}


def is_current(store: Store, archive: Archive, ids: dict[str, str]) -> bool:
    """Whether the archive is there, made of the layers of today's recipes."""
    key = store.archive_key(archive.name)
    if not all(layer.key in ids for layer in layers_of(archive)):
        return False
    return store.archive(archive.name).exists() and key.exists() and key.read_text() == index(archive, ids).key


def build_all(store: Store) -> None:
    """Build every missing layer and archive. ToolchainError says what failed; nothing half done is kept."""
    with _lock(store):
        store.sweep_half_done()
        wanted = list(dict.fromkeys(layer for archive in ARCHIVES for layer in layers_of(archive)))
        missing = [layer for layer in wanted if store.diff_id(layer) is None]
        _require_space(store, missing)
        try:
            for archive in ARCHIVES:
                for layer in layers_of(archive):
                    if store.diff_id(layer) is None:
                        with progress.step(f"Image layer {layer.name}", layer.expected_seconds):
                            build_layer(store, layer)
                ids = diff_ids(store, (archive,))
                if not is_current(store, archive, ids):
                    with progress.step(f"Packing images {archive.name}.tar", archive.expected_seconds):
                        pack_archive(store, archive, index(archive, ids), ids)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EPIPE):
                raise
            raise ToolchainError(_full(store)) from error
        except ToolchainError as error:
            said = "\n".join(getattr(error, "__notes__", []))
            # Programs bury it in logs of their own, so the disk itself is asked too, before the sweep.
            if "enough free space" in said or shutil.disk_usage(store.root).free < _NEARLY_FULL_BYTES:
                raise ToolchainError(_full(store)) from error
            log = store.root / "failed.log"
            log.write_text(said)
            raise ToolchainError(f"{error}\nEverything it said is in {log}.") from error
        finally:
            store.sweep_half_done()
        store.sweep_stale(wanted, now())


def build_layer(store: Store, layer: Layer) -> None:
    """Build one layer whose layers below are there."""
    scratch = store.scratch(layer)
    tree = scratch / "tree"
    if layer.suite is not None:
        tree.mkdir()
        chroot.bootstrap(layer.suite, tree)
        _fill(tree, layer)
    elif layer.below:
        with chroot.overlay([store.tree(below) for below in layer.below], tree) as merged:
            _fill(merged, layer)
    else:
        tree.mkdir()
        _copy(tree, layer)
    packed = scratch / "packed"
    digest = pack_tree(tree, packed)
    store.finish(layer, tree, packed, digest)
    remove(scratch)


def _fill(root: Path, layer: Layer) -> None:
    _copy(root, layer)
    with chroot.inside(root):
        if layer.before:
            chroot.command(root, ["sh", "-euc", layer.before], f"preparing the root file system {layer.name}")
        if layer.packages:
            chroot.install(root, layer.packages, f"installing the Debian packages of {layer.name}")
        if layer.requirements:
            _install_wheels(root, layer.requirements)
        if layer.script:
            chroot.command(root, ["sh", "-euc", layer.script], f"setting up the root file system {layer.name}")
        for check in layer.verify:
            said = chroot.command(root, check.command, f"checking {layer.name} ({' '.join(check.command)})")
            if check.prints not in said:
                raise ToolchainError(
                    f"The root file system {layer.name} is not what it should be: `{' '.join(check.command)}` should "
                    f"print {check.prints!r} and printed {said.strip()[:200]!r}. Debian may have moved on: see "
                    "lab/images/catalogue.py."
                )


def _copy(root: Path, layer: Layer) -> None:
    for copy in layer.copies:
        source = REPOSITORY / copy.source
        for path in files_of(source):
            target = (
                root / copy.target.lstrip("/") / path.relative_to(source) if source.is_dir() else root / copy.target[1:]
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            target.chmod(copy.mode)
            os.utime(target, (0, 0))


def _install_wheels(root: Path, requirements: str) -> None:
    """Wheels for the image's Python, by this machine's pip, then compiled so that no start has to."""
    machine = os.uname().machine
    platforms = [f"--platform={name}_{machine}" for name in _PLATFORMS]
    run(
        [
            sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--root-user-action=ignore",
            "--no-deps", "--require-hashes", "--no-compile", "--only-binary=:all:", "--implementation=cp",
            "--python-version=3.11", *platforms, f"--target={root / _PYTHON_PACKAGES}",
            "-r", str(REPOSITORY / requirements),
        ],
        "installing the Python packages of the images",
    )  # fmt: skip
    chroot.command(
        root,
        ["python3", "-m", "compileall", "-q", "-j2", "--invalidation-mode", "unchecked-hash", f"/{_PYTHON_PACKAGES}"],
        "compiling the Python packages of the images",
    )


def _require_space(store: Store, missing: list[Layer]) -> None:
    if not missing:
        return
    store.root.mkdir(parents=True, exist_ok=True)
    needed = sum(layer.megabytes for layer in missing) + _RESERVE_MEGABYTES
    free = shutil.disk_usage(store.root).free // 2**20
    if free < needed:
        raise ToolchainError(
            f"The images need about {needed} MB of disk in {store.root.parent} and only {free} MB are free: "
            "free some space or point SPAREWHEEL_CACHE to a larger disk, then run the same command again."
        )


def _full(store: Store) -> str:
    return (
        f"The disk under {store.root.parent} is full while building the images; nothing half done was kept. "
        "Free some space, then run the same command again: finished layers are kept."
    )


@contextmanager
def _lock(store: Store) -> Generator[None]:
    """One build at a time per cache; the kernel lets go of it however this process ends."""
    store.root.mkdir(parents=True, exist_ok=True)
    with (store.root / "lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.note("Another build of the images is at work; waiting for it to end.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
