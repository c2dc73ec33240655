"""What every area of a stack's config shares: unknown settings refused, names checked, secrets named and never held."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from stacks.numbers import only_numbers

CREDENTIALS_SECRET: Final = "sparewheel-credentials"  # noqa: S105 - the name of a Secret, not its content
"""Kubernetes Secret in our namespace that holds, under its own name, each secret of the stack that a setting names."""


class Area(BaseModel):
    """A part of a stack's config; it holds no secret, only the name of one."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, raw: object) -> object:
        return only_numbers(raw, cls)


DnsName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
"""What Kubernetes takes for a name and for a label's value."""

HostName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=63)]
"""A machine's name, which is its Node's and a label's value; a cloud's have dots."""

SECRET_NAME: Final = r"^[a-z][-a-z0-9]{0,62}$"  # noqa: S105 - the form of a name
SecretName = Annotated[str, Field(pattern=SECRET_NAME)]
"""The key of a secret of the stack, set by ``pulumi config set --secret NAME``."""

AbsolutePath = Annotated[str, Field(pattern=r"^/[^\s'\"]*$")]


def _file(path: str) -> str:
    if path.endswith("/"):
        msg = f"{path} is a folder; name the file in it"
        raise ValueError(msg)
    return path


def _folder(path: str) -> str:
    if path.strip("/") == "" or any(part in (".", "..") for part in path.split("/")):
        msg = f"{path} is no folder of its own; write its whole path, without . and .."
        raise ValueError(msg)
    return path


AbsoluteFile = Annotated[AbsolutePath, AfterValidator(_file)]
AbsoluteFolder = Annotated[AbsolutePath, AfterValidator(_folder)]

LABEL_KEY: Final = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
LABEL_VALUE: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
LabelKey = Annotated[str, Field(pattern=LABEL_KEY)]
LabelValue = Annotated[str, Field(pattern=LABEL_VALUE)]
"""What Kubernetes takes for a label (its documentation, "Labels and Selectors", syntax and character set)."""


_NAME: Final = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE: Final = re.compile(
    rf"(([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(:[0-9]{{1,5}})?/)?{_NAME}(/{_NAME})*"
    r"(:\w[-\w.]{0,127})?(@[a-z0-9]+([.+_-][a-z0-9]+)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
"""A container image as registries name it (the distribution project's grammar of references)."""


def _image(value: str) -> str:
    if not _REFERENCE.fullmatch(value):
        msg = f"{value[:60]!r} is no image; write it as registry/name:tag or registry/name@sha256:DIGEST"
        raise ValueError(msg)
    return value


Image = Annotated[str, AfterValidator(_image)]


def credential_ref(value: object) -> object:
    """``machines-ssh`` as the API models want it: a key in the Secret that the stack makes. Anything else is left."""
    if not isinstance(value, str):
        return value
    if not re.fullmatch(SECRET_NAME, value, re.ASCII):
        msg = (
            f"key_ref {value[:40]!r} is no name of a secret: store the key under one, such as machines-ssh, with "
            "'pulumi config set --secret machines-ssh < FILE', and write that name"
        )
        raise ValueError(msg)
    return {"name": CREDENTIALS_SECRET, "key": value}


def with_credential_refs(raw: object, *path: str) -> object:
    """A copy of ``raw`` in which the setting at ``path`` names a secret of the stack as the API models want it."""
    if not isinstance(raw, dict):
        return raw
    body: dict[str, Any] = {str(key): value for key, value in raw.items()}  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    head, rest = path[0], path[1:]
    if head in body:
        body[head] = with_credential_refs(body[head], *rest) if rest else credential_ref(body[head])
    return body
