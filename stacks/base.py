"""What every area of a stack's config shares: unknown settings refused, names checked, secrets named and never held."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

CREDENTIALS_SECRET: Final = "sparewheel-credentials"  # noqa: S105 - the name of a Secret, not its content
"""Kubernetes Secret in our namespace that holds, under its own name, each secret of the stack that a setting names."""


class Area(BaseModel):
    """A part of a stack's config; it holds no secret, only the name of one."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


DnsName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
"""What Kubernetes takes for a name and for a label's value."""

SecretName = Annotated[str, Field(pattern=r"^[a-z][-a-z0-9]{0,62}$")]
"""The key of a secret of the stack, set by ``pulumi config set --secret NAME``."""

PUBLIC_KEY: Final = r"(ssh|ecdsa|sk)-[-a-z0-9@.]+ [A-Za-z0-9+/]+={0,3}( [^\n]*)?"
"""A line of a public key file, of a user or of a host."""

AbsolutePath = Annotated[str, Field(pattern=r"^/[^\s'\"]*$")]

LabelKey = Annotated[
    str, Field(pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
]
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")]
"""What Kubernetes takes for a label (its documentation, "Labels and Selectors", syntax and character set)."""

Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]


def credential_ref(value: object) -> object:
    """``machines-ssh`` as the API models want it: a key in the Secret that the stack makes. Anything else is left."""
    return {"name": CREDENTIALS_SECRET, "key": value} if isinstance(value, str) else value


def with_credential_refs(raw: object, *path: str) -> object:
    """A copy of ``raw`` in which the setting at ``path`` names a secret of the stack as the API models want it."""
    if not isinstance(raw, dict):
        return raw
    body: dict[str, Any] = {str(key): value for key, value in raw.items()}  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    head, rest = path[0], path[1:]
    if head in body:
        body[head] = with_credential_refs(body[head], *rest) if rest else credential_ref(body[head])
    return body
