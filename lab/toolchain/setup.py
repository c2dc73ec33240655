"""Set up a profile: packages, virtual environment, programs. Everything that is there already costs nothing."""

from __future__ import annotations

import os
from pathlib import Path

from lab.toolchain import build, debian, machine, onpath, plugins, progress, venv
from lab.toolchain.lock import cache_lock
from lab.toolchain.tools import PROFILES, Tool


def ensure(profile: str) -> Path:
    """Provide everything that `profile` needs and return the virtual environment's folder.

    Raises ToolchainError, with nothing half done, where the machine can't.
    """
    tools = PROFILES[profile]
    if profile == "lab":
        machine.require_root()
        machine.require_debian()
    chosen = _choose(tools)
    if not _is_ready(profile, chosen):
        with cache_lock():
            build.sweep()
            if profile == "lab":
                debian.ensure()
            venv.ensure()
            _announce([tool for tool in tools if tool.name not in chosen and not build.built(tool).exists()])
            for tool in tools:
                build.link(tool.name, chosen.get(tool.name) or build.build(tool))
    if profile == "pages":
        debian.ensure_browser()
    if profile in ("stack", "pulumi", "bench", "lab"):
        if "pulumi-language-python" in chosen:
            plugins.ensure_machines_scripts(chosen["pulumi"])
        else:
            plugins.ensure_scripts()
        plugins.ensure_command_plugin(venv.folder())
    return venv.folder()


def _is_ready(profile: str, chosen: dict[str, Path]) -> bool:
    """Whether nothing is left to do but links; then nobody waits for a set-up that builds something else."""
    if not venv.is_ready() or (profile == "lab" and debian.missing(debian.PACKAGES)):
        return False
    return all(
        build.linked(tool.name) == chosen.get(tool.name, build.built(tool)) and build.linked(tool.name).exists()
        for tool in PROFILES[profile]
    )


def _choose(tools: tuple[Tool, ...]) -> dict[str, Path]:
    """The machine's own programs that will do, by tool name."""
    chosen: dict[str, Path] = {}
    for tool in tools:
        own = onpath.accepted(tool, chosen)
        if own is not None:
            chosen[tool.name] = own
    return chosen


def _announce(tools: list[Tool]) -> None:
    if tools:
        machine.find_go()
        total = progress.duration(sum(tool.expected_seconds for tool in tools))
        cores = len(os.sched_getaffinity(0))
        progress.note(
            f"{len(tools)} programs are to be built from their pinned Go modules, once: "
            f"about {total} in all on two cores (this machine has {cores})."
        )
