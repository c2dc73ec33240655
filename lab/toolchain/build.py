"""Build one program from its pinned Go module into the cache.

A build is keyed by all that decides its result. It happens in a scratch folder and is moved into place whole, so that
a build that was stopped leaves nothing but Go's own cache, from which the next one goes on.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from lab.toolchain import progress
from lab.toolchain.errors import ToolchainError
from lab.toolchain.machine import find_go
from lab.toolchain.paths import REPOSITORY, bin_folder, scratch_folder, store_folder
from lab.toolchain.process import run
from lab.toolchain.tools import Tool

_GO_FLAGS = "-trimpath"
_FULL = "{} stopped because the disk is full; nothing half done was kept. Free some space, then run it again."


def key(tool: Tool) -> str:
    """A digest of what decides the result: pins, sources of ours, package and flags."""
    digest = hashlib.sha256()
    for part in (tool.name, tool.package, _linker_flags(tool), _GO_FLAGS, repr(tool.copied)):
        digest.update(part.encode() + b"\0")
    for path in _sources(tool):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def built(tool: Tool) -> Path:
    """Where the build of `tool` with these pins lies, or will lie."""
    name = Path(tool.name).name
    return store_folder() / f"{name}-{key(tool)}" / name


def build(tool: Tool) -> Path:
    """Build `tool` unless this very build is there, and return its path."""
    target = built(tool)
    if target.exists():
        return target
    go = find_go()
    with progress.step(f"Building {tool.name} {tool.version}", tool.expected_seconds):
        try:
            scratch_folder().mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=scratch_folder(), prefix=f"{os.getpid()}-") as scratch:
                _build_in(Path(scratch), go, tool, target)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise ToolchainError(_FULL.format(f"Building {tool.name}")) from None
            raise
    return target


def sweep() -> None:
    """Remove the half-done work of processes that are no more; the kernel ended them, so they couldn't."""
    for path in scratch_folder().glob("*-*"):
        owner = path.name.split("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(path, ignore_errors=True)


def link(name: str, target: Path) -> None:
    """Let `bin/NAME` lead to `target`, in one step."""
    place = bin_folder() / name
    if place.is_symlink() and place.readlink() == target:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(place)


def linked(name: str) -> Path:
    """Where `bin/NAME` leads; itself where it isn't a link of ours."""
    place = bin_folder() / name
    return place.readlink() if place.is_symlink() else place


def module_folder(tool: Tool, module: str) -> Path:
    """Where Go keeps the pinned `module` that `tool`'s go.mod names; it is fetched where it isn't there yet."""
    go = find_go()
    env = _environment(scratch_folder())
    source = REPOSITORY / tool.module
    doing = f"fetching the Go module {module}"
    run([go, "mod", "download", module], doing, folder=source, env=env)
    said = run([go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module], doing, folder=source, env=env)
    return Path(said.strip())


def _build_in(scratch: Path, go: str, tool: Tool, target: Path) -> None:
    module = scratch / "module"
    module.mkdir()
    for path in _sources(tool):
        shutil.copy(path, module / path.name)
    if tool.copied_from is not None:
        origin = module_folder(tool, tool.copied_from)
        for name in tool.copied:
            shutil.copyfile(origin / name, module / Path(name).name)
    (scratch / "tmp").mkdir()
    output = scratch / "output" / target.name
    command = [go, "build", "-mod=readonly", "-ldflags", _linker_flags(tool), "-o", str(output), tool.package]
    if shutil.which("nice"):
        command = ["nice", "-n", "5", *command]
    run(command, f"building {tool.name}", folder=module, env=_environment(scratch / "tmp"))
    target.parent.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target.parent, ignore_errors=True)
    output.parent.rename(target.parent)


def _environment(scratch: Path) -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": _GO_FLAGS, "GOWORK": "off", "GOTMPDIR": str(scratch)}


def _sources(tool: Tool) -> list[Path]:
    """go.mod, go.sum and a main of ours; never what a build copied beside them."""
    folder = REPOSITORY / tool.module
    return sorted(path for path in folder.iterdir() if path.name in ("go.mod", "go.sum") or path.suffix == ".go")


def _linker_flags(tool: Tool) -> str:
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in tool.values)])
