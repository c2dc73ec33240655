"""How a person gets at the data centre: the login node, the cluster, and what to type next."""

from __future__ import annotations

import shlex

from lab.machines.inventory import load_inventory
from lab.paths import Paths
from lab.stack import user_key

LOGIN_PORT = 30022


def ssh_arguments(paths: Paths, user: str) -> list[str]:
    """``ssh`` to the login node as that user, without a command."""
    address = load_inventory(paths.state).system[0].ip
    known_hosts = paths.state / "users" / user / "known_hosts"
    arguments = ["ssh", "-i", str(user_key(paths, user)), "-p", str(LOGIN_PORT)]
    for option in ("StrictHostKeyChecking=accept-new", f"UserKnownHostsFile={known_hosts}", "LogLevel=ERROR"):
        arguments += ["-o", option]
    return [*arguments, f"{user}@{address}"]


def next_lines(paths: Paths, remediation: str = "NAME") -> list[str]:
    """Lines for a shell in the checkout, in the order in which they are typed."""
    return [
        'eval "$(make env)"',
        f"export KUBECONFIG={shlex.quote(str(paths.kubeconfig))}",
        "sparewheel status",
        f"sparewheel timeline {remediation}",
        f"{shlex.join(ssh_arguments(paths, 'alice'))}  # alice on the login node; bob likewise",
    ]
