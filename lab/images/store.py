"""Finished layers in the cache: a compressed tar, the unpacked tree that others are built over, and a record.

The record is written last: a layer without one doesn't exist.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.images.recipes import Layer
from lab.paths import Paths

STALE_SECONDS = 3 * 86400.0
"""A layer of an older recipe is kept this long after its last use, for a second checkout."""
_HALF_DONE = ".half-"


@dataclass(frozen=True)
class Store:
    """Layers under `root`, archives under `archives`."""

    root: Path
    archives: Path

    @classmethod
    def of(cls, paths: Paths) -> Store:
        """The store in the cache."""
        return cls(paths.cache / "rootfs", paths.image_tars)

    def tree(self, layer: Layer) -> Path:
        """The layer's files, unpacked: what it adds to the layers below."""
        return self.root / layer.file_name

    def packed(self, layer: Layer) -> Path:
        """The layer as a zstd-compressed tar."""
        return self.root / f"{layer.file_name}.tar.zst"

    def record(self, layer: Layer) -> Path:
        """Its digest, as JSON."""
        return self.root / f"{layer.file_name}.json"

    def diff_id(self, layer: Layer) -> str | None:
        """Digest of the uncompressed tar, or None where the layer isn't there."""
        record = self.record(layer)
        if not (record.exists() and self.packed(layer).exists() and self.tree(layer).exists()):
            return None
        return str(json.loads(record.read_text())["diffId"])

    def scratch(self, layer: Layer) -> Path:
        """A fresh folder for a build."""
        folder = self.root / f"{_HALF_DONE}{layer.file_name}"
        remove(folder)
        folder.mkdir(parents=True)
        return folder

    def finish(self, layer: Layer, tree: Path, packed: Path, diff_id: str) -> None:
        """Move a built layer into place."""
        remove(self.tree(layer))
        tree.rename(self.tree(layer))
        packed.rename(self.packed(layer))
        part = self.root / f"{_HALF_DONE}{layer.file_name}.json"
        part.write_text(json.dumps({"diffId": diff_id}))
        part.rename(self.record(layer))

    def sweep_half_done(self) -> None:
        """Remove what a stopped build left."""
        for path in self.root.glob(f"{_HALF_DONE}*"):
            remove(path)
        for path in self.archives.glob(f"{_HALF_DONE}*"):
            remove(path)

    def sweep_stale(self, wanted: Iterable[Layer], now: float) -> None:
        """Mark the wanted layers as used and remove those of other recipes that nobody used for long."""
        keep = {layer.file_name for layer in wanted}
        for record in self.root.glob("*.json"):
            if record.stem in keep:
                os.utime(record, (now, now))
            elif now - record.stat().st_mtime > STALE_SECONDS:
                record.unlink()
                remove(self.root / record.stem)
                remove(self.root / f"{record.stem}.tar.zst")

    def archive(self, name: str) -> Path:
        """The docker-archive that hosts import."""
        return self.archives / f"{name}.tar"

    def archive_half_done(self, name: str) -> Path:
        """Where it is written first."""
        return self.archives / f"{_HALF_DONE}{name}"

    def archive_key(self, name: str) -> Path:
        """Holds the key of what the archive contains."""
        return self.archives / f"{name}.key"


def remove(path: Path) -> None:
    """Delete a file or a folder; one that isn't there is fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def now() -> float:
    """Seconds since the epoch."""
    return time.time()
