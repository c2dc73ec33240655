"""Where the ranks of this attempt meet. Worked out anew for each: the host of the last one may be the one that died."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .attempt import Attempt

PORT_FIRST = 20_000
PORT_COUNT = 10_000
"""Below the kernel's range for outgoing connections (from 32768)."""

_PART = re.compile(r"([^,\[]+(?:\[[^\]]*\])?[^,\[]*(?:\[[^\]]*\][^,\[]*)*)(?:,|$)")


class RendezvousError(RuntimeError):
    """This process can't find out where to meet the others; says what is missing."""


@dataclass(frozen=True)
class Meeting:
    """`host` is an address; `is_host`: this node opens the port; `run_id` differs between attempts."""

    nodes: int
    host: str
    port: int
    run_id: str
    is_host: bool


def expand(node_list: str) -> list[str]:
    """`gpu-[0-1,3],cpu7` -> gpu-0 gpu-1 gpu-3 cpu7: Slurm's compact node list, without asking `scontrol`."""
    names: list[str] = []
    for part in _PART.findall(node_list):
        names += _expand_one(part)
    return names


def _expand_one(part: str) -> list[str]:
    match = re.search(r"\[([^\]]*)\]", part)
    if match is None:
        return [part]
    before, after = part[: match.start()], part[match.end() :]
    numbers: list[str] = []
    for item in match[1].split(","):
        first, _, last = item.partition("-")
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)]
    return [before + number + rest for number in numbers for rest in _expand_one(after)]


def port_of(attempt: Attempt) -> int:
    """Two jobs on one node, or two attempts of one job, get different ports (jobs 10,000 apart may share one)."""
    return PORT_FIRST + (attempt.job * 37 + attempt.number) % PORT_COUNT


def meeting(
    attempt: Attempt,
    environ: Mapping[str, str],
    resolve: Callable[[str], str] = socket.gethostbyname,
    node_address: Callable[[str], str] | None = None,
) -> Meeting:
    """The meeting point of `attempt`, from what Slurm tells each task. RendezvousError when it can't be worked out.

    The host is the first node of this attempt's list: by name, else by `node_address` (what Slurm knows of it), else
    the address that srun was started from, which is the same node in a batch job. Outside Slurm: this machine alone.
    """
    if "SLURM_JOB_ID" not in environ:
        return Meeting(1, "127.0.0.1", port_of(attempt), attempt.name, is_host=True)
    node_list = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST")
    if not node_list:
        raise RendezvousError("SLURM_STEP_NODELIST isn't set: start this by srun, one task per node")
    names = expand(node_list)
    node_id = environ.get("SLURM_NODEID")
    if node_id is None or not names:
        raise RendezvousError(
            f"SLURM_NODEID is {node_id!r} and the node list is {node_list!r}: start this by srun, one task per node"
        )
    tries: list[Callable[[], str]] = [lambda: resolve(names[0])]
    if node_address is not None:
        tries.append(lambda: resolve(node_address(names[0])))
    if environ.get("SLURM_LAUNCH_NODE_IPADDR"):
        tries.append(lambda: environ["SLURM_LAUNCH_NODE_IPADDR"])
    failures: list[str] = []
    for attempt_to_find in tries:
        try:
            host = attempt_to_find()
            if len(names) > 1 and ipaddress.ip_address(host).is_loopback:
                raise ValueError(f"{names[0]} resolves to {host}, where other nodes can't reach it")
        except (OSError, ValueError) as error:
            failures.append(str(error))
        else:
            return Meeting(len(names), host, port_of(attempt), f"{attempt.job}-{attempt.number}", node_id == "0")
    raise RendezvousError(
        f"the first node of this attempt, {names[0]}, has no address: {'; '.join(failures)}. "
        "Make node names resolve on the workers."
    )


def own_address(host: str, port: int) -> str:
    """This machine's address on the way to the meeting point (nothing is sent)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        return str(probe.getsockname()[0])


def ensure_free(port: int) -> None:
    """RendezvousError if another program listens on `port` of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise RendezvousError(
                f"port {port} on {socket.gethostname()} can't be opened ({error}): give another one by --port"
            ) from error
