"""What is asked of a ``machines`` backend beyond its fields' forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sparewheel.api.gpu_pool import MachinesBackend, PowerSwitch, SshEndpoint
from stacks.explain import shown
from stacks.ssh_keys import why_no_key

JOIN_HOLES: Final = {
    "{node}": "which machine joins",
    "{labels}": "the labels it registers with",
    "{taints}": "the taints that keep work off it until it was checked",
}

SHORTEST_JOIN_SECONDS: Final = 60


def wrong_machines(backend: MachinesBackend) -> str:
    """Why it can't be used, with the next step; empty when it can."""
    return next(_wrong(backend), "")


def wrong_end(what: str, ssh: SshEndpoint) -> str:
    """Why ``what`` can't be reached as it is written, with the next step; empty when it can."""
    return next(_wrong_end(what, ssh), "")


def _wrong(backend: MachinesBackend) -> Iterator[str]:
    yield from _wrong_kubeadm(backend) if backend.kubeadm is not None else _wrong_commands(backend)
    for machine in backend.machines:
        yield from _wrong_end(f"machine {machine.name}", machine.ssh)
    if backend.power is not None:
        yield from _wrong_power(backend.power)


def _wrong_commands(backend: MachinesBackend) -> Iterator[str]:
    for hole, what in JOIN_HOLES.items():
        if hole not in backend.join_command:
            yield f"join_command doesn't say {what}; write {hole} where that goes"
    if not backend.leave_command.strip():
        yield "leave_command is empty; write what takes a machine out of the cluster"


def _wrong_kubeadm(backend: MachinesBackend) -> Iterator[str]:
    for setting in ("join_command", "leave_command"):
        if setting in backend.model_fields_set:
            yield f"{setting} and kubeadm are both there; a machine joins and leaves by one of them, so leave one away"
    for name in backend.kubeadm.ignore_preflight_errors if backend.kubeadm is not None else ():
        if not re.fullmatch(r"[A-Za-z][-A-Za-z0-9.]*", name) or name.lower() == "all":
            yield f"kubeadm.ignore_preflight_errors: {name[:40]!r} is no name of one check, such as SystemVerification"
    if backend.timeout_seconds < SHORTEST_JOIN_SECONDS:
        yield f"timeout_seconds: kubeadm needs more than {backend.timeout_seconds:g}, {SHORTEST_JOIN_SECONDS} at least"


def _wrong_power(power: PowerSwitch) -> Iterator[str]:
    for setting in ("on_command", "off_command", "status_command"):
        if "{host}" not in str(getattr(power, setting)):
            yield f"power.{setting} doesn't say which machine; write {{host}} where its name goes"
    yield from _wrong_end("power", power.ssh)


def _wrong_end(what: str, ssh: SshEndpoint) -> Iterator[str]:
    if not re.fullmatch(r"[A-Za-z0-9][-A-Za-z0-9.:]*", ssh.address):
        yield f"{what}: ssh.address {shown(ssh.address)} is no host name or IP address"
    if not re.fullmatch(r"[A-Za-z0-9_][-A-Za-z0-9_.]*", ssh.user):
        yield f"{what}: ssh.user {shown(ssh.user)} is no user name"
    wrong = why_no_key(ssh.host_key)
    if wrong:
        yield f"{what}: ssh.host_key {wrong}; 'ssh-keyscan -t ed25519 ADDRESS' shows it after the address"
