"""What a host remembers of its membership across a power cycle, and small helpers of the host's commands."""

import contextlib
import fcntl
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.machines.guest.files import SUPERVISOR_RUN

JOINED = Path("/etc/kubernetes/joined.json")
KUBELET_HEALTH = "http://127.0.0.1:10248/healthz"
CONTAINERD_HEALTH_SECONDS = 20.0


@dataclass(frozen=True)
class Membership:
    """The arguments of the last join."""

    node_name: str
    labels: list[str]
    taints: list[str]

    def save(self) -> None:
        """Remember it."""
        JOINED.write_text(json.dumps(asdict(self), indent=1))


def load_membership() -> Membership | None:
    """The last join that no leave has followed."""
    return Membership(**json.loads(JOINED.read_text())) if JOINED.exists() else None


@contextlib.contextmanager
def membership_lock() -> Iterator[None]:
    """One join or leave at a time."""
    with Path(SUPERVISOR_RUN, "membership.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def kubelet_is_healthy() -> bool:
    """Whether the kubelet answers on its local health port."""
    try:
        with urllib.request.urlopen(KUBELET_HEALTH, timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def own_address() -> str:
    """This host's address on eth0."""
    done = subprocess.run(["ip", "-4", "-json", "addr", "show", "eth0"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)[0]["addr_info"][0]["local"]


def host_name() -> str:
    """This host's name."""
    return Path("/etc/hostname").read_text().strip()
