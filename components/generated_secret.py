"""A secret made once and kept: random bytes that only the stack's encrypted state and the cluster ever hold.

The provider class lives here, alone and free of side effects: the state refers to it by this import path.
"""

from __future__ import annotations

import base64
import secrets
import uuid
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult


class GeneratedSecretProvider(ResourceProvider):
    """Create makes the bytes; nothing but a replacement ever makes others."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        raw = secrets.token_bytes(int(props["bytes"]))
        return CreateResult(
            id_=uuid.uuid4().hex, outs={"bytes": props["bytes"], "base64": base64.b64encode(raw).decode()}
        )

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        old, new = int(_olds["bytes"]), int(_news["bytes"])
        return DiffResult(changes=old != new, replaces=["bytes"] if old != new else [])

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        return UpdateResult(outs={"bytes": _news["bytes"], "base64": _olds["base64"]})


class GeneratedSecret(Resource, module="sparewheel", name="GeneratedSecret"):
    """``length_bytes`` random bytes, base64-encoded in output ``base64``."""

    base64: pulumi.Output[str]

    def __init__(self, name: str, length_bytes: int, opts: pulumi.ResourceOptions | None = None) -> None:
        secret = pulumi.ResourceOptions(additional_secret_outputs=["base64"])
        super().__init__(
            GeneratedSecretProvider(),
            name,
            {"bytes": length_bytes, "base64": None},
            pulumi.ResourceOptions.merge(opts, secret),
        )
