"""Clones of the shared image store."""

from __future__ import annotations

import json
from pathlib import Path

from lab.machines.guest.images import BLOBS, FROZEN, METADATA, ROOT, SNAPSHOTTER, STAMP, clone_images, is_current
from lab.machines.image_store import stale_tars
from lab.paths import Paths


def make_store(paths: Paths, imported: dict[str, str]) -> Path:
    store = paths.image_store
    for folder in (BLOBS, f"{SNAPSHOTTER}/snapshots/1/fs"):
        (store / ROOT / folder).mkdir(parents=True, exist_ok=True)
    (store / ROOT / BLOBS / "blob").write_text("layer")
    (store / FROZEN).mkdir(exist_ok=True)
    for name in ("meta.db", "metadata.db"):
        (store / FROZEN / name).write_text(json.dumps(imported))
    (store / FROZEN / STAMP).write_text(json.dumps(imported))
    paths.image_tars.mkdir(exist_ok=True)
    for name in imported:
        (paths.image_tars / name).touch()
    return store


def test_a_clone_links_what_is_large_and_copies_what_changes(tmp_path: Path) -> None:
    paths = Paths(tmp_path, tmp_path, tmp_path)
    store = make_store(paths, {"a.tar": "1"})
    host = tmp_path / "host"
    clone_images(store, host)
    assert (host / BLOBS / "blob").samefile(store / ROOT / BLOBS / "blob")
    assert (host / SNAPSHOTTER / "snapshots/1").is_symlink()
    assert not (host / METADATA / "meta.db").samefile(store / FROZEN / "meta.db")
    assert is_current(store, host)


def test_a_clone_knows_what_it_lacks(tmp_path: Path) -> None:
    paths = Paths(tmp_path, tmp_path, tmp_path)
    store = make_store(paths, {"a.tar": "1", "b.tar": "1"})
    host = tmp_path / "host"
    clone_images(store, host)
    assert stale_tars(paths, host) == []
    make_store(paths, {"a.tar": "1", "b.tar": "2", "c.tar": "1"})
    assert [tar.name for tar in stale_tars(paths, host)] == ["b.tar", "c.tar"]
    assert not is_current(store, host)


def test_a_new_clone_forgets_the_containers_of_the_old(tmp_path: Path) -> None:
    paths = Paths(tmp_path, tmp_path, tmp_path)
    store = make_store(paths, {"a.tar": "1"})
    host = tmp_path / "host"
    clone_images(store, host)
    (host / SNAPSHOTTER / "snapshots/7").mkdir()
    (host / METADATA / "meta.db").write_text("containers")
    clone_images(store, host)
    assert [s.name for s in (host / SNAPSHOTTER / "snapshots").iterdir()] == ["1"]
    assert (host / METADATA / "meta.db").read_text() == (store / FROZEN / "meta.db").read_text()
    assert (store / ROOT / SNAPSHOTTER / "snapshots/1/fs").is_dir()
