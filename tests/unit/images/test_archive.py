"""The docker-archive's index: shared layers once, digests as they are, a key that follows the content."""

from __future__ import annotations

import json

from lab.images.archive import index, layer_members
from lab.images.catalogue import Archive, Image, layers_of
from lab.images.recipes import Layer

BASE = Layer("base", 1, 1, packages=("one",))
MORE = Layer("more", 1, 1, packages=("two",))
ARCHIVE = Archive(
    "pair",
    (
        Image("here/small:1", (BASE,), command=("sleep", "1")),
        Image("here/large:1", (BASE, MORE), entrypoint=("/start",), environment=("A=b",)),
    ),
    expected_seconds=1,
)
IDS = {BASE.key: "sha256:aa", MORE.key: "sha256:bb"}


def test_manifest_names_images_configs_and_layers_in_order() -> None:
    made = index(ARCHIVE, IDS, "x86_64")
    small, large = json.loads(made.manifest)
    assert small["RepoTags"] == ["here/small:1"]
    assert small["Layers"] == ["aa.tar.zst"]
    assert large["Layers"] == ["aa.tar.zst", "bb.tar.zst"]
    assert {small["Config"], large["Config"]} == set(made.configs)


def test_config_carries_start_command_and_uncompressed_digests() -> None:
    made = index(ARCHIVE, IDS, "x86_64")
    config = json.loads(made.configs[json.loads(made.manifest)[1]["Config"]])
    assert config["config"] == {"Entrypoint": ["/start"], "Env": ["A=b"], "WorkingDir": "/"}
    assert config["rootfs"] == {"type": "layers", "diff_ids": ["sha256:aa", "sha256:bb"]}
    assert config["architecture"] == "amd64"


def test_architecture_is_the_containers_word_for_it() -> None:
    made = index(ARCHIVE, IDS, "aarch64")
    assert all(json.loads(config)["architecture"] == "arm64" for config in made.configs.values())


def test_a_shared_layer_is_stored_once() -> None:
    assert layer_members(layers_of(ARCHIVE), IDS) == {"aa.tar.zst": BASE, "bb.tar.zst": MORE}


def test_key_follows_every_layer() -> None:
    changed = {**IDS, MORE.key: "sha256:cc"}
    assert index(ARCHIVE, IDS, "x86_64").key == index(ARCHIVE, IDS, "x86_64").key
    assert index(ARCHIVE, IDS, "x86_64").key != index(ARCHIVE, changed, "x86_64").key
