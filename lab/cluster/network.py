"""The bridge between the machine and its hosts, and the few kernel settings it needs."""

import ipaddress
import json
from pathlib import Path
from typing import Any

from lab.cluster.shell import run, succeeds
from lab.machines.inventory import BRIDGE, HOST_NETWORK, MACHINE_IP, POD_NETWORK, SERVICE_NETWORK, Inventory

OWNER_MARK = "sparewheel-lab"
WANTED_SETTINGS = {
    "net.ipv4.ip_forward": 1,
    "fs.inotify.max_user_instances": 8192,
    "fs.inotify.max_user_watches": 524288,
}


class NetworkConflictError(RuntimeError):
    """Something else uses the bridge's name or addresses."""


def check_conflicts() -> None:
    """Raise NetworkConflictError when another interface has our bridge's name or overlaps our networks."""
    for link in _ip("link", "show"):
        if link["ifname"] == BRIDGE and link.get("ifalias") != OWNER_MARK:
            raise NetworkConflictError(
                f"an interface {BRIDGE} exists that this data centre did not make; "
                f"remove it ('ip link del {BRIDGE}') or rename it"
            )
    ours = [ipaddress.ip_network(n) for n in (HOST_NETWORK, POD_NETWORK, SERVICE_NETWORK)]
    for route in _ip("-4", "route", "show"):
        if route.get("dev") == BRIDGE or route["dst"] == "default":
            continue
        other = ipaddress.ip_network(route["dst"], strict=False)
        for network in ours:
            if other.overlaps(network):
                raise NetworkConflictError(
                    f"route {route['dst']} by {route.get('dev', 'another interface')} overlaps {network}, which the "
                    f"data centre needs; take that interface down while it runs"
                )


def ensure_bridge(inventory: Inventory, state: Path) -> None:
    """Bridge, address, routes to the hosts' pods, kernel settings; changes nothing that is right already."""
    if not succeeds(["ip", "link", "show", BRIDGE]):
        run(["ip", "link", "add", BRIDGE, "type", "bridge"])
        run(["ip", "link", "set", BRIDGE, "alias", OWNER_MARK])
    run(["ip", "addr", "replace", f"{MACHINE_IP}/24", "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "up"])
    for host in inventory.hosts:
        run(["ip", "route", "replace", host.pod_network, "via", host.ip, "dev", BRIDGE, "onlink"])
    _raise_settings(state / "kernel-settings.json")


def remove_bridge(state: Path) -> None:
    """Delete the bridge (its routes go with it) and put the kernel settings back."""
    if any(link["ifname"] == BRIDGE and link.get("ifalias") == OWNER_MARK for link in _ip("link", "show")):
        run(["ip", "link", "del", BRIDGE])
    saved = state / "kernel-settings.json"
    if saved.exists():
        for name, value in json.loads(saved.read_text()).items():
            _setting(name).write_text(f"{value}\n")
        saved.unlink()


def _raise_settings(saved: Path) -> None:
    before: dict[str, int] = json.loads(saved.read_text()) if saved.exists() else {}
    for name, wanted in WANTED_SETTINGS.items():
        value = int(_setting(name).read_text())
        if value < wanted:
            before.setdefault(name, value)
            saved.parent.mkdir(parents=True, exist_ok=True)
            saved.write_text(json.dumps(before))
            _setting(name).write_text(f"{wanted}\n")


def _setting(name: str) -> Path:
    return Path("/proc/sys") / name.replace(".", "/")


def _ip(*arguments: str) -> list[dict[str, Any]]:
    return json.loads(run(["ip", "-json", *arguments]) or "[]")
