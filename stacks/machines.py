"""What is asked of a ``machines`` backend beyond its fields' forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sparewheel.api.gpu_pool import MachinesBackend, PowerSwitch, SshEndpoint
from stacks.ssh_keys import why_no_key

JOIN_HOLES: Final = {
    "{node}": "which machine joins",
    "{labels}": "the labels it registers with",
    "{taints}": "the taints that keep work off it until it was checked",
}


def wrong_machines(backend: MachinesBackend) -> str:
    """Why it can't be used, with the next step; empty when it can."""
    return next(_wrong(backend), "")


def _wrong(backend: MachinesBackend) -> Iterator[str]:
    for hole, what in JOIN_HOLES.items():
        if hole not in backend.join_command:
            yield f"join_command doesn't say {what}; write {hole} where that goes"
    if not backend.leave_command.strip():
        yield "leave_command is empty; write what takes a machine out of the cluster"
    for machine in backend.machines:
        yield from _wrong_end(f"machine {machine.name}", machine.ssh)
    if backend.power is not None:
        yield from _wrong_power(backend.power)


def _wrong_power(power: PowerSwitch) -> Iterator[str]:
    for setting in ("on_command", "off_command", "status_command"):
        if "{host}" not in str(getattr(power, setting)):
            yield f"power.{setting} doesn't say which machine; write {{host}} where its name goes"
    yield from _wrong_end("power", power.ssh)


def _wrong_end(what: str, ssh: SshEndpoint) -> Iterator[str]:
    if not re.fullmatch(r"[A-Za-z0-9][-A-Za-z0-9.:]*", ssh.address):
        yield f"{what}: ssh.address {ssh.address!r} is no host name or IP address"
    if not re.fullmatch(r"[A-Za-z0-9_][-A-Za-z0-9_.]*", ssh.user):
        yield f"{what}: ssh.user {ssh.user!r} is no user name"
    wrong = why_no_key(ssh.host_key)
    if wrong:
        yield f"{what}: ssh.host_key {wrong}; 'ssh-keyscan -t ed25519 ADDRESS' shows it after the address"
