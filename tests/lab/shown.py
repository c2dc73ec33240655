"""Everything that people and programs get to see of a running platform, and every secret that it holds."""

from __future__ import annotations

import base64
import json
from typing import Any

from lab import stack
from lab.cluster.bootstrap import kubectl
from lab.paths import Paths
from sparewheel.api.names import NAMESPACE
from tests.lab.platform import Platform
from tests.support.canaries import files_under

SPACES = (NAMESPACE, "slurm")
SHOWN = (
    "remediations,nodehealths,gpuhosts,gpupools,remediationpolicies,configmaps,events,pods,deployments,daemonsets,"
    "statefulsets"
)
PUBLIC = (".crt", ".pub", "known_hosts", "namespace")
SHORTEST = 12
"""Letters; a shorter value is a name such as ``slurm``, which is no secret."""


def secrets_of(paths: Paths) -> list[str]:
    """Each secret of the cluster's in the form that would be recognised: a line of a key, a password, hex of bytes."""
    found: set[str] = set()
    for space in SPACES:
        for item in _items(paths, space, "secrets"):
            data: dict[str, str] = item.get("data") or {}
            for key, value in data.items():
                if not key.endswith(PUBLIC):
                    found |= _recognisable(base64.b64decode(value))
    return sorted(found)


def _recognisable(data: bytes) -> set[str]:
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        return {data.hex(), base64.b64encode(data).decode()}
    lines = [line.strip() for line in text.strip().splitlines()]
    if "PRIVATE KEY" in lines[0]:
        return {max(lines[1:-1], key=len)}
    if len(lines) > 1:  # a file: what stands behind a password's name
        pairs = (line.partition("=") for line in lines)
        return {value for name, _, value in pairs if "pass" in name.lower() and len(value) >= SHORTEST}
    return {lines[0]} if len(lines[0]) >= SHORTEST else set()


def shown_by(platform: Platform) -> dict[str, str | bytes]:
    """Objects, logs of every pod that runs, messages, Pulumi's state and its own log."""
    paths, places = platform.paths, dict[str, str | bytes]()
    nodes = kubectl(paths, "get", "nodes", "-o", "name").replace("node/", "").split()
    for space in SPACES:
        for item in _items(paths, space, SHOWN):
            places[f"{item['kind']} {space}/{item['metadata']['name']}"] = json.dumps(item)
            if (
                item["kind"] == "Pod" and item["spec"].get("nodeName") in nodes
            ):  # one of a host that left stays for a while
                name = item["metadata"]["name"]
                log = kubectl(paths, "-n", space, "logs", name, "--all-containers", "--tail=-1")
                places[f"log of {space}/{name}"] = log
    places["messages"] = json.dumps([message.body for message in platform.inbox.messages])
    for folder in ("backend", "log"):
        places |= {f"{folder}/{name}": data for name, data in files_under(stack.folder(paths) / folder).items()}
    return places


def _items(paths: Paths, space: str, kinds: str) -> list[dict[str, Any]]:
    return json.loads(kubectl(paths, "-n", space, "get", kinds, "-o", "json"))["items"]
