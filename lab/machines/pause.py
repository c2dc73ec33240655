"""The pause image: one static binary, packed as a docker-archive."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

from lab.machines.guest.files import PAUSE_IMAGE
from lab.paths import Paths


def make_pause_image(paths: Paths) -> bool:
    """Pack `pause.tar` among the image tars when the binary is newer; True when it was packed."""
    tar = paths.image_tars / "pause.tar"
    binary = paths.bin / "pause"
    if tar.exists() and tar.stat().st_mtime >= binary.stat().st_mtime:
        return False
    paths.image_tars.mkdir(parents=True, exist_ok=True)
    part = tar.with_suffix(".part")
    write_docker_archive(part, PAUSE_IMAGE, {"pause": binary.read_bytes()}, ["/pause"])
    part.rename(tar)
    return True


def write_docker_archive(path: Path, image: str, files: dict[str, bytes], entrypoint: list[str]) -> None:
    """An image of one layer with these executable files."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name, content in files.items():
            _add(tar, name, content, 0o755)
    diff_id = "sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()
    search_path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": entrypoint, "Env": [search_path]},
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        }
    ).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [image], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        _add(tar, "layer.tar", layer.getvalue(), 0o644)
        _add(tar, config_name, config, 0o644)
        _add(tar, "manifest.json", manifest, 0o644)


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.mode = mode
    tar.addfile(info, io.BytesIO(content))
