"""What to do next about what Pulumi refuses: a lock that a killed job left, a stack or a login that isn't there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

LOCK: Final = re.compile(r"created by (?P<user>\S+)@(?P<host>\S+) \(pid (?P<pid>\d+)\) at (?P<since>\S+)")
"""A self-managed backend's line about one lock."""

_EMPTY_FILE: Final = (
    "A killed job left an empty file beside the state. On a file backend remove {stack}.json.attrs where it is empty: "
    "it is no state; `?metadata=skip` at the end of PULUMI_BACKEND_URL keeps Pulumi from writing such files."
)

_UNREACHABLE: Final = (
    "Is the kubeconfig this cluster's, and is there a way from here to it? A stack that isn't up yet is previewed "
    "without: `SPAREWHEEL_OFFLINE=1 make ci-preview STACK={stack}`."
)

_STEPS: Final = (
    ("failed to load checkpoint: EOF", _EMPTY_FILE),
    ("no stack named", "Make the stack once: `pulumi stack init {stack}`."),
    ("PULUMI_ACCESS_TOKEN", "Say where the state is: set PULUMI_BACKEND_URL, or PULUMI_ACCESS_TOKEN for Pulumi Cloud."),
    ("Kubernetes cluster is unreachable", _UNREACHABLE),
    ("passphrase", "Set PULUMI_CONFIG_PASSPHRASE (or PULUMI_CONFIG_PASSPHRASE_FILE) to this stack's passphrase."),
)


def next_step(error: str, stack: str, host: str, runs: Callable[[int], bool]) -> str:
    """The next step, or an empty string. ``runs``: whether a process of this host, by its id, is Pulumi."""
    if "currently locked by" in error:
        return _about_locks(error, stack, host, runs)
    if "Another update is currently in progress" in error or "another update is currently in progress" in error:
        return f"Wait for it. If its job was killed, `pulumi cancel --stack {stack}` ends it; then run this again."
    return next((step.replace("{stack}", stack) for sign, step in _STEPS if sign in error), "")


def _about_locks(error: str, stack: str, host: str, runs: Callable[[int], bool]) -> str:
    lines: list[str] = []
    for found in LOCK.finditer(error):
        who = f"The lock is of {found['user']} on {found['host']}, process {found['pid']}, since {found['since']}."
        if found["host"] != host:
            lines.append(f"{who} Look there, or at that job, whether it still runs.")
        elif runs(int(found["pid"])):
            lines.append(f"{who} It runs: wait for it.")
        else:
            lines.append(f"{who} It runs no more: it was killed and left its lock.")
    step = f"If nothing changes the stack any more: `pulumi cancel --stack {stack}`, then run this again; it goes on."
    return "\n".join([*lines, step])
