"""Programs whose source lies in this repository: built with Go into the cache when their source has changed."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from lab.cluster.shell import run
from lab.paths import Paths

LAB = Path(__file__).resolve().parents[1]
SOURCES = {"gpu-device-plugin": LAB / "standins/gpu_device_plugin", "pause": LAB / "images/pause"}
BUILD_SECONDS = 600.0


def outdated(paths: Paths) -> list[str]:
    """Programs that are absent or older than their source."""
    return [name for name in SOURCES if not (paths.bin / name).exists() or _mark(paths, name) != _digest(name)]


def build_own_programs(paths: Paths, report: Callable[[str], None]) -> list[str]:
    """Build what is outdated; returns the names."""
    names = outdated(paths)
    flags = "-trimpath -buildvcs=false -mod=readonly"
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": flags}
    paths.bin.mkdir(parents=True, exist_ok=True)
    for name in names:
        report(name)
        part = paths.bin / f".{name}.part"
        argv = ["go", "build", "-C", str(SOURCES[name]), "-ldflags=-s -w", "-o", str(part), "."]
        run(argv, timeout_seconds=BUILD_SECONDS, env=environment)
        part.rename(paths.bin / name)
        _mark_file(paths, name).write_text(_digest(name))
    return names


def _digest(name: str) -> str:
    digest = hashlib.sha256()
    for file in sorted(SOURCES[name].iterdir()):
        if file.suffix == ".go" or file.name in ("go.mod", "go.sum"):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _mark_file(paths: Paths, name: str) -> Path:
    return paths.bin / f".{name}.source"


def _mark(paths: Paths, name: str) -> str:
    file = _mark_file(paths, name)
    return file.read_text() if file.exists() else ""
