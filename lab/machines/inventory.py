"""The machines of the data centre and their addresses."""

import json
from dataclasses import dataclass
from pathlib import Path

BRIDGE = "swbr0"
MACHINE_IP = "10.77.0.1"
HOST_NETWORK = "10.77.0.0/24"
POD_NETWORK = "10.78.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE_IP = "10.96.0.1"
CLUSTER_DOMAIN = "cluster.local"
API_PORT = 6443
POWER_PORT = 2222
ONCALL_PORT = 8900
"""Where messages go, on the machine's own address: the stack names it, the demo and the tests listen there."""
RACK_POWER_PORT = 2223
RACK_ONCALL_PORT = 8901
GPUS_PER_HOST = 8
DEFAULT_GPU_HOSTS = 3
MOST_GPU_HOSTS = 60
SYSTEM_HOSTS = 1
FIRST_OF_RACK = 200
MOST_OF_RACK = 8


@dataclass(frozen=True)
class Host:
    """One machine; `gpus` is the number of GPUs in it, `number` its last address byte.

    bare: it knows no cluster, and has kubeadm and a kubelet service in place of `host-join`.
    """

    name: str
    number: int
    gpus: int
    bare: bool = False

    @property
    def ip(self) -> str:
        """Address on the bridge."""
        return f"10.77.0.{self.number}"

    @property
    def pod_network(self) -> str:
        """Addresses of the pods on this host."""
        return f"10.78.{self.number}.0/24"

    @property
    def mac(self) -> str:
        """A stable hardware address."""
        return f"02:77:00:00:00:{self.number:02x}"

    @property
    def link(self) -> str:
        """Name of the machine's end of the cable."""
        return f"sw-{self.name}"


@dataclass(frozen=True)
class Inventory:
    """All hosts, system hosts first."""

    hosts: tuple[Host, ...]
    power_port: int = POWER_PORT

    @property
    def is_rack(self) -> bool:
        """Whether these are bare machines, whose cluster is made by whoever gets them."""
        return any(host.bare for host in self.hosts)

    def host(self, name: str) -> Host:
        """The host of that name; KeyError-free: a ValueError that lists the names."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise ValueError(f"there is no host {name!r}; hosts are {', '.join(h.name for h in self.hosts)}")

    @property
    def system(self) -> tuple[Host, ...]:
        """Hosts without GPUs, joined by `up`."""
        return tuple(h for h in self.hosts if h.gpus == 0)

    @property
    def gpu(self) -> tuple[Host, ...]:
        """Hosts with GPUs, joined by whoever runs the pool."""
        return tuple(h for h in self.hosts if h.gpus > 0)


def build_inventory(gpu_hosts: int) -> Inventory:
    """sys-1 at .11 and gpu-1.. at .21 and up."""
    if not 0 <= gpu_hosts <= MOST_GPU_HOSTS:
        raise ValueError(f"{gpu_hosts} GPU hosts asked for; between 0 and {MOST_GPU_HOSTS} are possible")
    system = [Host(f"sys-{n}", 10 + n, 0) for n in range(1, SYSTEM_HOSTS + 1)]
    gpu = [Host(f"gpu-{n}", 20 + n, GPUS_PER_HOST) for n in range(1, gpu_hosts + 1)]
    return Inventory(tuple(system + gpu))


def build_rack(count: int) -> Inventory:
    """bare-0 without GPUs at .200, bare-1.. with GPUs after it, and a power switch of their own."""
    if not 1 <= count <= MOST_OF_RACK:
        raise ValueError(f"{count} bare hosts asked for; between 1 and {MOST_OF_RACK} are possible")
    hosts = [Host(f"bare-{n}", FIRST_OF_RACK + n, GPUS_PER_HOST if n else 0, bare=True) for n in range(count)]
    return Inventory(tuple(hosts), RACK_POWER_PORT)


def save_inventory(state: Path, gpu_hosts: int) -> Inventory:
    """Write the size down, so that every later command sees the same machines."""
    return _save(state, build_inventory(gpu_hosts), {"gpuHosts": gpu_hosts})


def save_rack(state: Path, count: int) -> Inventory:
    """Likewise, of a rack of bare machines."""
    return _save(state, build_rack(count), {"bareHosts": count})


def _save(state: Path, inventory: Inventory, size: dict[str, int]) -> Inventory:
    state.mkdir(parents=True, exist_ok=True)
    new = state / ".inventory.json.new"
    new.write_text(json.dumps(size))
    new.replace(state / "inventory.json")
    return inventory


def load_inventory(state: Path) -> Inventory:
    """The inventory written by `up`; FileNotFoundError says to run it."""
    path = state / "inventory.json"
    if not path.exists():
        raise FileNotFoundError(f"no data centre in {state}; run 'python -m lab up' first")
    try:
        size = json.loads(path.read_text())
        return build_rack(int(size["bareHosts"])) if "bareHosts" in size else build_inventory(int(size["gpuHosts"]))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ValueError(
            f"{path} is damaged ({error}); 'python -m lab down' removes all, 'up' makes it anew"
        ) from error
