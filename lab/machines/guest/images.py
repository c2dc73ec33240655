"""The host's container store: a clone of the shared, unpacked images that costs no copy.

Blobs are hard links where the disk allows it, unpacked layers are links into the shared read-only folder (containerd
only ever reads a layer once it is committed), and only the two small databases are copied, as they were when the shared
store was last complete.
"""

import os
import shutil
from pathlib import Path

from lab.machines.guest.files import IMAGE_STORE

BLOBS = "io.containerd.content.v1.content/blobs/sha256"
METADATA = "io.containerd.metadata.v1.bolt"
SNAPSHOTTER = "io.containerd.snapshotter.v1.overlayfs"
FROZEN = "frozen"
ROOT = "root"
STAMP = "imported.json"


def is_current(store: Path, target: Path) -> bool:
    """Whether `target` has the images that `store` has now."""
    wanted, has = store / FROZEN / STAMP, target / STAMP
    return not wanted.exists() or (has.exists() and has.read_text() == wanted.read_text())


def mark_current(store: Path, target: Path) -> None:
    """Note that `target` has the images that `store` has now."""
    shutil.copy2(store / FROZEN / STAMP, target / STAMP)


def clone_images(store: Path, target: Path) -> None:
    """Make the container store `target` (of a host whose containerd is stopped) a clone of `store`."""
    (target / STAMP).unlink(missing_ok=True)
    for name in (METADATA, SNAPSHOTTER):
        shutil.rmtree(target / name, ignore_errors=True)
    frozen = store / FROZEN
    if not frozen.exists():
        return
    blobs = target / BLOBS
    blobs.mkdir(parents=True, exist_ok=True)
    for blob in (store / ROOT / BLOBS).iterdir():
        if not (blobs / blob.name).exists():
            _link_or_copy(blob, blobs / blob.name)
    snapshots = target / SNAPSHOTTER / "snapshots"
    snapshots.mkdir(parents=True)
    for layer in (store / ROOT / SNAPSHOTTER / "snapshots").iterdir():
        (snapshots / layer.name).symlink_to(f"{IMAGE_STORE}/{ROOT}/{SNAPSHOTTER}/snapshots/{layer.name}")
    shutil.copy2(frozen / "metadata.db", target / SNAPSHOTTER / "metadata.db")
    (target / METADATA).mkdir(exist_ok=True)
    shutil.copy2(frozen / "meta.db", target / METADATA / "meta.db")
    mark_current(store, target)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def restore_images() -> None:
    """Inside the host: give it a fresh clone."""
    clone_images(Path(IMAGE_STORE), Path("/var/lib/containerd"))
