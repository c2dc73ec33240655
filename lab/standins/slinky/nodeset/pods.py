"""Facts about one pod."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from lab.standins.slinky import names
from lab.standins.slinky.objects import (
    Obj,
    annotations_of,
    condition,
    dig,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    parse_time,
)

CORDON_SOURCE: Final = "nodeset.slinky.slurm.net/pod-cordon-source"
"""Who set pod-cordon: "node", "termination", or (absent) somebody else."""

_ORDINAL: Final = re.compile(r"-([0-9]+)$")


def ordinal(pod: Obj) -> int:
    """The number at the end of the pod's name; -1 for none."""
    found = _ORDINAL.search(name_of(pod))
    return int(found[1]) if found else -1


def slurm_name(pod: Obj) -> str:
    """The pod's node name in Slurm."""
    return str(dig(pod, "spec", "hostname") or name_of(pod))


def host(pod: Obj) -> str:
    """The Kubernetes node the pod is on; empty before it is scheduled."""
    return str(dig(pod, "spec", "nodeName", default=""))


def phase(pod: Obj) -> str:
    """Pending, Running, Succeeded, Failed or Unknown; empty for a pod just made."""
    return str(dig(pod, "status", "phase", default=""))


def label(pod: Obj) -> str:
    """namespace/name, as messages name a pod."""
    return f"{namespace_of(pod)}/{name_of(pod)}"


def is_ready(pod: Obj) -> bool:
    """True if the Ready condition is True."""
    return (condition(pod, "Ready") or {}).get("status") == "True"


def is_healthy(pod: Obj) -> bool:
    """Running, ready and not being deleted."""
    return phase(pod) == "Running" and is_ready(pod) and not is_deleting(pod)


def ready_since(pod: Obj) -> datetime | None:
    """When the pod became ready."""
    ready = condition(pod, "Ready")
    return parse_time(ready.get("lastTransitionTime")) if ready and ready.get("status") == "True" else None


def is_available(pod: Obj, min_ready_seconds: int, now: datetime) -> bool:
    """Ready for at least ``min_ready_seconds``."""
    if not is_ready(pod):
        return False
    since = ready_since(pod)
    return min_ready_seconds == 0 or (since is not None and since + timedelta(seconds=min_ready_seconds) <= now)


def is_cordoned(pod: Obj) -> bool:
    """True if the pod bears the cordon annotation."""
    return annotations_of(pod).get(names.POD_CORDON) == "true"


def cordon_source(pod: Obj) -> str:
    """Who cordoned the pod."""
    return annotations_of(pod).get(CORDON_SOURCE, "")


def revision(pod: Obj) -> str:
    """Hash of the NodeSet that the pod was made from."""
    return labels_of(pod).get(names.CONTROLLER_HASH, "")
