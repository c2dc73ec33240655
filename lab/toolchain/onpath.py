"""The machine's own programs: used instead of a build where their version is accepted."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from lab.toolchain.paths import cache_folder
from lab.toolchain.tools import Accepted, Tool, Version


def find(name: str) -> Path | None:
    """The first `name` on the PATH that isn't one of ours."""
    ours = cache_folder()
    for place in os.environ.get("PATH", "").split(os.pathsep):
        candidate = Path(place or ".") / name
        if Path(place).is_absolute() and not candidate.is_relative_to(ours) and os.access(candidate, os.X_OK):
            return candidate
    return None


def pulumi_plugin(name: str, version: str) -> Path | None:
    """A resource plugin that Pulumi has fetched itself, by the engine's own folder layout."""
    home = Path(os.environ.get("PULUMI_HOME", Path.home() / ".pulumi"))
    program = home / "plugins" / f"resource-{name}-v{version}" / f"pulumi-resource-{name}"
    return program if os.access(program, os.X_OK) else None


def accepted(tool: Tool, chosen: dict[str, Path]) -> Path | None:
    """The machine's own program for `tool`, or None where it must be built.

    chosen: the machine's own programs accepted so far, by tool name.
    """
    if tool.beside is not None:
        first = chosen.get(tool.beside)
        candidate = first.resolve().parent / tool.name if first is not None else None
        if candidate is not None and os.access(candidate, os.X_OK):
            return candidate
        return pulumi_plugin(tool.plugin, tool.version) if tool.plugin is not None else None
    found = find(tool.name) if tool.accepted is not None else None
    if found is None or tool.accepted is None:
        return None
    version = version_of(found, tool.accepted)
    return found if version is not None and tool.accepted.at_least <= version < tool.accepted.below else None


def version_of(program: Path, how: Accepted) -> Version | None:
    """What version `program` says it is; None where it says none within five seconds."""
    try:
        done = subprocess.run(
            [str(program), *how.arguments], capture_output=True, text=True, check=False, timeout=5, env=_quiet()
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(f"{done.stdout}\n{done.stderr}") if done.returncode == 0 else None


def parse_version(said: str) -> Version | None:
    """The first dotted number in what a program said."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", said)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def _quiet() -> dict[str, str]:
    return {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
