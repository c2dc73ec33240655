"""From the API server's answer to one of our errors. The line that matters: *gone* is told apart from *not known*."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import httpx
import msgspec

from sparewheel.kube.port import (
    ConflictError,
    GoneError,
    InvalidError,
    Json,
    KubeError,
    NotFoundError,
    Resource,
    TooManyRequestsError,
    UnavailableError,
)

Read = TypeVar("Read")
Content = bytes | msgspec.Raw
"""An answer, or an object in a list."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked, in words for messages."""

    verb: str
    resource: Resource
    name: str = ""
    namespace: str | None = None
    subresource: str | None = None

    def __str__(self) -> str:
        place = self.namespace if self.resource.namespaced else None
        parts = [place, self.name] if self.name else [place and f"in {place}"]
        what = "/".join(part for part in parts if part)
        return f"{self.verb} {self.resource.kind} {what}".rstrip() + (
            f" ({self.subresource})" if self.subresource else ""
        )


def error_from_status(request: Request, response: httpx.Response) -> KubeError:
    """The error for an answer that is not 2xx."""
    status = _status_of(response)
    message = str(status.get("message") or response.text[:300].strip() or response.reason_phrase)
    text = f"{request}: {response.status_code} {message}"
    match response.status_code:
        case 404:
            return _not_found(request, status, text)
        case 409:
            return ConflictError(text)
        case 410:
            return GoneError(text)
        case 422 if _uid_differs(status):
            return ConflictError(f"{text}; another object has this name now")
        case 429:
            return TooManyRequestsError(text, _retry_after(response, status))
        case 401:
            return UnavailableError(f"{text}; the credentials were not accepted: renew the token or kubeconfig")
        case code if 400 <= code < 500 and code != 408:
            return InvalidError(text)
        case _:
            return UnavailableError(text)


def error_from_watch(request: Request, status: Json) -> KubeError:
    """The error inside a watch's ERROR event."""
    text = f"{request}: {status.get('code')} {status.get('message')}"
    if status.get("code") == 410 or status.get("reason") in {"Expired", "Gone"}:
        return GoneError(text)
    return UnavailableError(text)


def _status_of(response: httpx.Response) -> Json:
    try:
        body = msgspec.json.decode(response.content)
    except msgspec.DecodeError:
        return {}
    if isinstance(body, dict):
        status = cast("dict[str, Any]", body)
        return status if status.get("kind") == "Status" else {}
    return {}


def _not_found(request: Request, status: Json, text: str) -> KubeError:
    """404 proves absence only when the API server's own Status names the object (or, on create, its namespace).

    A plain 404 comes from a kind that is not served (CRD missing or not yet established) or from something that is no
    API server at all.
    """
    details = cast("Json", status.get("details") or {})
    named = request.verb == "create" or details.get("name") == request.name
    if status.get("reason") == "NotFound" and named:
        return NotFoundError(text)
    return UnavailableError(f"{text}; {request.resource.plural} are not served there: are the CRDs installed?")


def _uid_differs(status: Json) -> bool:
    """A patch with another ``metadata.uid`` is refused as a change of an immutable field, which is our precondition."""
    details = cast("Json", status.get("details") or {})
    causes = cast("list[Json]", details.get("causes") or [])
    return any(cause.get("field") == "metadata.uid" for cause in causes)


def _retry_after(response: httpx.Response, status: Json) -> float | None:
    details = cast("Json", status.get("details") or {})
    value = response.headers.get("Retry-After") or details.get("retryAfterSeconds")
    try:
        return float(value) if value is not None else None
    except ValueError:
        return None


class Page(msgspec.Struct):
    """One page of a list, its objects not yet read."""

    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET
    metadata: dict[str, Any] = {}


_PAGES: Final = msgspec.json.Decoder(Page)
_OBJECTS: Final = msgspec.json.Decoder(dict[str, Any])


def read_page(content: Content) -> Page:
    return _PAGES.decode(content)


def read_object(content: Content) -> Json:
    return read_fields(_OBJECTS.decode(content))


def read_fields(body: Json) -> Json:
    """Without who wrote which field: a third of an object, read by nobody here. The server keeps its own on a write."""
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        cast("Json", metadata).pop("managedFields", None)
    return body


def understood(request: Request, answer: Content, read: Callable[[Content], Read]) -> Read:
    try:
        return read(answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnavailableError(f"{request}: answer is no JSON object: {error}") from error
