"""A layer's key changes with what decides its content, and with nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.images import recipes
from lab.images.catalogue import ARCHIVES, layers_of
from lab.images.recipes import Copy, Layer


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one folder of sources."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code/a.py").write_text("a = 1\n")
    monkeypatch.setattr(recipes, "REPOSITORY", tmp_path)
    return tmp_path


def layer(**changes: object) -> Layer:
    """The same recipe each time, but for `changes`."""
    base = Layer("code", expected_seconds=1, megabytes=1, copies=(Copy("code", "/opt/code"),))
    return replace(base, **changes)  # type: ignore[arg-type]


def test_same_recipe_same_key(checkout: Path) -> None:
    assert layer().key == layer().key


@pytest.mark.parametrize(
    "changes",
    [
        {"packages": ("slurmd",)},
        {"script": "true"},
        {"before": "true"},
        {"suite": "forky"},
        {"below": (Layer("base", 1, 1),)},
        {"copies": (Copy("code", "/opt/elsewhere"),)},
        {"copies": (Copy("code", "/opt/code", 0o755),)},
    ],
)
def test_every_part_of_the_recipe_counts(checkout: Path, changes: dict[str, object]) -> None:
    assert layer(**changes).key != layer().key


def test_a_changed_layer_below_changes_those_above(checkout: Path) -> None:
    lower = Layer("base", 1, 1, packages=("one",))
    other = Layer("base", 1, 1, packages=("two",))
    assert layer(below=(lower,)).key != layer(below=(other,)).key


def test_expected_time_and_size_do_not_rebuild(checkout: Path) -> None:
    assert layer(expected_seconds=99, megabytes=99).key == layer().key


def test_a_source_counts_by_content_and_name(checkout: Path) -> None:
    before = layer().key
    (checkout / "code/a.py").write_text("a = 2\n")
    changed = layer().key
    (checkout / "code/a.py").write_text("a = 1\n")
    (checkout / "code/a.py").rename(checkout / "code/b.py")
    assert len({before, changed, layer().key}) == 3


def test_compiled_python_does_not_count(checkout: Path) -> None:
    before = layer().key
    (checkout / "code/__pycache__").mkdir()
    (checkout / "code/__pycache__/a.cpython-311.pyc").write_bytes(b"x")
    assert layer().key == before


def test_layers_are_built_after_those_below() -> None:
    for archive in ARCHIVES:
        seen: list[Layer] = []
        for one in layers_of(archive):
            assert all(below in seen for below in one.below), one.name
            seen.append(one)


def test_only_user_images_carry_pytorch() -> None:
    carriers = {
        image.name.partition("/")[2].partition(":")[0]
        for archive in ARCHIVES
        for image in archive.images
        if any(part.name == "torch" for part in image.layers)
    }
    assert carriers == {"slurmd", "login"}
