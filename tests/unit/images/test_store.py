"""A layer is there only when it is whole; leftovers and old recipes go."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from lab.images.recipes import Layer
from lab.images.store import STALE_SECONDS, Store
from lab.images.tree import add_tree

LAYER = Layer("one", 1, 1, packages=("a",))
OTHER = Layer("one", 1, 1, packages=("b",))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "rootfs", tmp_path / "images")


def finish(store: Store, layer: Layer) -> None:
    """Put a finished layer into the store."""
    scratch = store.scratch(layer)
    (scratch / "tree").mkdir()
    (scratch / "packed").write_bytes(b"x")
    store.finish(layer, scratch / "tree", scratch / "packed", "sha256:aa")


def test_a_finished_layer_has_its_digest(store: Store) -> None:
    finish(store, LAYER)
    assert store.diff_id(LAYER) == "sha256:aa"
    assert store.diff_id(OTHER) is None


@pytest.mark.parametrize("lost", ["record", "packed"])
def test_a_layer_without_one_of_its_parts_is_not_there(store: Store, lost: str) -> None:
    finish(store, LAYER)
    getattr(store, lost)(LAYER).unlink()
    assert store.diff_id(LAYER) is None


def test_half_done_work_is_swept_and_finished_work_kept(store: Store) -> None:
    finish(store, LAYER)
    (store.scratch(OTHER) / "tree").mkdir()
    store.archives.mkdir()
    store.archive_half_done("slurm").write_bytes(b"x")
    store.sweep_half_done()
    assert not list(store.archives.iterdir())
    assert [path.name for path in store.root.iterdir() if path.name.startswith(".")] == []
    assert store.diff_id(LAYER) == "sha256:aa"


def test_an_old_recipe_goes_after_its_time(store: Store) -> None:
    finish(store, LAYER)
    finish(store, OTHER)
    used = store.record(OTHER).stat().st_mtime
    store.sweep_stale([LAYER], used + STALE_SECONDS - 1)
    assert store.diff_id(OTHER) is not None
    store.sweep_stale([LAYER], used + STALE_SECONDS + 1)
    assert store.diff_id(OTHER) is None
    assert not store.tree(OTHER).exists()
    assert store.diff_id(LAYER) is not None


def test_a_tree_becomes_a_sorted_tar_without_the_machines_own_files(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for folder in ("etc", "dev", "usr"):
        (root / folder).mkdir(parents=True)
    (root / "etc/hostname").write_text("builder\n")
    (root / "etc/b").write_text("b")
    (root / "etc/a").write_text("a")
    (root / "dev/null").write_text("")
    (root / "usr/link").symlink_to("../etc/a")
    os.link(root / "etc/a", root / "etc/c")
    with tarfile.open(tmp_path / "out.tar", "w") as tar:
        add_tree(tar, root)
    with tarfile.open(tmp_path / "out.tar") as tar:
        names = tar.getnames()
        assert sorted(names) == ["dev", "etc", "etc/a", "etc/b", "etc/c", "usr", "usr/link"]
        assert [name for name in names if name.startswith("etc/")] == ["etc/a", "etc/b", "etc/c"]
        assert tar.getmember("etc/c").islnk()
        assert tar.getmember("usr/link").linkname == "../etc/a"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_a_deletion_becomes_a_whiteout(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    os.mknod(root / "etc/gone", 0o020000, os.makedev(0, 0))
    with tarfile.open(tmp_path / "out.tar", "w") as tar:
        add_tree(tar, root)
    with tarfile.open(tmp_path / "out.tar") as tar:
        assert tar.getnames() == ["etc", "etc/.wh.gone"]
