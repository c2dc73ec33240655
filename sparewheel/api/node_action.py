"""A request to a node's helper, as it stands in the Node's annotation. Without pydantic: the helper reads it too."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sparewheel.api.enums import NodeActionKind

_DEVICE = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}")
_ID = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,127}")


class BadRequestError(ValueError):
    """The annotation is no request; ``id`` is empty where even that can't be read."""

    def __init__(self, message: str, request_id: str = "") -> None:
        super().__init__(message)
        self.id = request_id


@dataclass(frozen=True, slots=True)
class NodeActionRequest:
    """``id`` is used once: the same id again is the same request. ``deadline``: begun by then, or not at all."""

    id: str
    kind: NodeActionKind
    deadline: datetime
    device: str = ""
    """PCI address of the GPU (``0000:17:00``), for a reset."""


def is_device(text: str) -> bool:
    """Can this device be reset? A PCI address of a GPU, as faults and requests carry it."""
    return _DEVICE.fullmatch(text) is not None


def to_annotation(request: NodeActionRequest) -> str:
    """The annotation's value."""
    body = {"id": request.id, "kind": request.kind.value, "deadline": request.deadline.isoformat()}
    return json.dumps({**body, "device": request.device} if request.device else body, sort_keys=True)


def from_annotation(text: str) -> NodeActionRequest:
    """Raises BadRequestError, which says what is wrong with it."""
    try:
        raw: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the request is no JSON: {error}") from error
    if not isinstance(raw, dict):
        raise BadRequestError("the request is no JSON object")
    body = cast("dict[str, Any]", raw)
    request_id = str(body.get("id", ""))
    if not _ID.fullmatch(request_id):
        raise BadRequestError(f"the request's id {request_id[:40]!r} is none: letters, digits, dash, dot")
    try:
        kind = NodeActionKind(body.get("kind", ""))
        deadline = datetime.fromisoformat(str(body.get("deadline", "")))
    except ValueError as error:
        raise BadRequestError(f"the request can't be read: {error}", request_id) from error
    device = str(body.get("device", ""))
    if deadline.tzinfo is None:
        raise BadRequestError("the request's deadline has no time zone", request_id)
    if (kind is NodeActionKind.RESET_GPU) != bool(device) or (device and not is_device(device)):
        raise BadRequestError(f"the request's device {device[:40]!r} doesn't go with {kind}", request_id)
    return NodeActionRequest(request_id, kind, deadline, device)
