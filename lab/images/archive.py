"""The docker-archive format: what names an image's layers. Pure; the writing is in `pack`."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from lab.images.catalogue import Archive, Image
from lab.images.recipes import Layer

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Index:
    """What goes into an archive beside the layers: configs by file name, and manifest.json."""

    configs: dict[str, bytes]
    manifest: bytes

    @property
    def key(self) -> str:
        """Digest of everything in the archive, since configs name the layers by content."""
        return hashlib.sha256(self.manifest).hexdigest()


def member(diff_id: str) -> str:
    """Name of a layer's file in the archive."""
    return f"{diff_id.removeprefix('sha256:')}.tar.zst"


def image_config(image: Image, diff_ids: Mapping[str, str], machine: str) -> bytes:
    """The image's config file.

    diff_ids: digest of each layer's uncompressed content by the layer's key; machine: as `uname -m` says it.
    """
    config: dict[str, object] = {"Env": list(image.environment), "WorkingDir": "/"}
    if image.entrypoint:
        config["Entrypoint"] = list(image.entrypoint)
    if image.command:
        config["Cmd"] = list(image.command)
    if image.user:
        config["User"] = image.user
    body = {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [diff_ids[layer.key] for layer in image.layers]},
    }
    return json.dumps(body, sort_keys=True).encode()


def index(archive: Archive, diff_ids: Mapping[str, str], machine: str = platform.machine()) -> Index:
    """Configs and manifest of an archive whose layers have these digests."""
    configs: dict[str, bytes] = {}
    manifest: list[dict[str, object]] = []
    for image in archive.images:
        config = image_config(image, diff_ids, machine)
        name = hashlib.sha256(config).hexdigest() + ".json"
        configs[name] = config
        layers = [member(diff_ids[layer.key]) for layer in image.layers]
        manifest.append({"Config": name, "RepoTags": [image.name], "Layers": layers})
    return Index(configs, json.dumps(manifest).encode())


def layer_members(layers: list[Layer], diff_ids: Mapping[str, str]) -> dict[str, Layer]:
    """Layer files to store, by name in the archive; two layers of the same content are one."""
    return {member(diff_ids[layer.key]): layer for layer in layers}
