"""Write layers and archives: compressed on the way, moved into place whole."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from lab.images.archive import Index, layer_members
from lab.images.catalogue import Archive, layers_of
from lab.images.store import Store
from lab.images.tree import add_tree
from lab.toolchain.errors import ToolchainError


class _Digesting(io.RawIOBase):
    """Passes bytes on to `target` and keeps their SHA-256."""

    def __init__(self, target: io.BufferedWriter) -> None:
        super().__init__()
        self._target = target
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.digest.update(data)
        self._target.write(data)
        return len(data)


def pack_tree(tree: Path, target: Path) -> str:
    """Write `tree` as a zstd-compressed tar; returns the digest of the uncompressed one (`sha256:...`)."""
    with target.open("wb") as output:
        zstd = subprocess.Popen(["zstd", "-q", "-3", "-T0", "-c"], stdin=subprocess.PIPE, stdout=output)
        assert zstd.stdin is not None
        sink = _Digesting(zstd.stdin)  # type: ignore[arg-type]
        try:
            with tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 20) as tar:
                add_tree(tar, tree)
        finally:
            try:
                zstd.stdin.close()
            finally:
                code = zstd.wait()
    if code != 0:
        raise ToolchainError(f"Compressing {tree.name} failed with exit code {code}: is the disk full?")
    return f"sha256:{sink.digest.hexdigest()}"


def pack_archive(store: Store, archive: Archive, index: Index, diff_ids: Mapping[str, str]) -> None:
    """Write the docker-archive of images whose layers are in the store."""
    store.archives.mkdir(parents=True, exist_ok=True)
    part = store.archive_half_done(archive.name)
    with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, layer in layer_members(layers_of(archive), diff_ids).items():
            with store.packed(layer).open("rb") as content:
                info = tarfile.TarInfo(name)
                info.size = store.packed(layer).stat().st_size
                tar.addfile(info, content)
        for name, body in (*index.configs.items(), ("manifest.json", index.manifest)):
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    # Without its key the archive counts as old, so a stop between the two steps costs one more packing.
    store.archive_key(archive.name).unlink(missing_ok=True)
    part.rename(store.archive(archive.name))
    store.archive_key(archive.name).write_text(index.key)
