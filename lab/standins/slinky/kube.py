"""A thin client of the Kubernetes API: plain dictionaries over httpx, in a cluster or with a kubeconfig."""

from __future__ import annotations

import base64
import json
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from lab.standins.slinky import names
from lab.standins.slinky.objects import Obj, dig, name_of, namespace_of
from lab.standins.slinky.pace import REQUEST_TIMEOUT_SECONDS, WATCH_TIMEOUT_SECONDS

_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"


class KubeError(Exception):
    """The API server refused; ``code`` is the HTTP status, ``reason`` its word for it."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


@dataclass(frozen=True)
class Resource:
    """A kind's place in the API."""

    kind: str
    path: str
    plural: str

    def at(self, namespace: str = "", name: str = "") -> str:
        """Path of the collection, or of one object."""
        middle = f"/namespaces/{namespace}" if namespace else ""
        end = f"/{name}" if name else ""
        return f"{self.path}{middle}/{self.plural}{end}"


def _all_resources() -> dict[str, Resource]:
    core = {
        "Pod": "pods",
        "Node": "nodes",
        "Service": "services",
        "Secret": "secrets",
        "ConfigMap": "configmaps",
        "Event": "events",
    }
    out = [Resource(kind, "/api/v1", plural) for kind, plural in core.items()]
    out += [Resource(kind, "/apis/apps/v1", f"{kind.lower()}s") for kind in ("StatefulSet", "Deployment")]
    out.append(Resource("PodDisruptionBudget", "/apis/policy/v1", "poddisruptionbudgets"))
    out += [Resource(kind, f"/apis/{names.API_VERSION}", plural) for kind, plural in names.KINDS.items()]
    return {one.kind: one for one in out}


RESOURCES: Final = _all_resources()


class _Bearer(httpx.Auth):
    """A token, read again from its file when the API server no longer takes it."""

    def __init__(self, token: str, file: Path | None = None) -> None:
        self._token = token
        self._file = file

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._token}"
        answer = yield request
        if answer.status_code == 401 and self._file is not None:
            self._token = self._file.read_text(encoding="utf-8").strip()
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request


@dataclass(frozen=True)
class Access:
    """Where the API server is and how to prove who we are."""

    server: str
    tls: ssl.SSLContext
    auth: httpx.Auth | None


def in_cluster() -> Access:
    """Access of the pod's service account. Raises OSError outside a pod."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    file = _SERVICE_ACCOUNT / "token"
    tls = ssl.create_default_context(cafile=str(_SERVICE_ACCOUNT / "ca.crt"))
    return Access(f"https://{host}:{port}", tls, _Bearer(file.read_text(encoding="utf-8").strip(), file))


def from_kubeconfig(path: Path) -> Access:
    """Access of a kubeconfig's current context: client certificate or token. Raises KeyError for a missing entry."""
    config: Obj = yaml.safe_load(path.read_text(encoding="utf-8"))
    context = _entry(config, "contexts", config["current-context"])["context"]
    cluster = _entry(config, "clusters", context["cluster"])["cluster"]
    user = _entry(config, "users", context["user"])["user"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        ca = _file(cluster, "certificate-authority", path.parent, folder)
        tls = ssl.create_default_context(cafile=str(ca) if ca else None)
        certificate = _file(user, "client-certificate", path.parent, folder)
        if certificate:
            tls.load_cert_chain(certificate, _file(user, "client-key", path.parent, folder))
    token: str | None = user.get("token")
    return Access(cluster["server"], tls, _Bearer(token) if token else None)


def _entry(config: Obj, group: str, name: str) -> Obj:
    for one in config[group]:
        if one["name"] == name:
            return one
    raise KeyError(f"the kubeconfig has no entry {name!r} under {group}; check its current-context")


def _file(part: Obj, key: str, beside: Path, scratch: Path) -> Path | None:
    if f"{key}-data" in part:
        out = scratch / key
        out.write_bytes(base64.b64decode(part[f"{key}-data"]))
        return out
    return beside / part[key] if key in part else None


class Kube:
    """Requests to one API server."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    @classmethod
    @asynccontextmanager
    async def connected(cls, access: Access) -> AsyncIterator[Kube]:
        """A client that is closed at the end."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        timeout = httpx.Timeout(REQUEST_TIMEOUT_SECONDS)
        async with httpx.AsyncClient(
            base_url=access.server, verify=access.tls, auth=access.auth, timeout=timeout, limits=limits
        ) as client:
            yield cls(client)

    async def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Obj:
        content = None if body is None else json.dumps(body)
        answer = await self._client.request(
            method, path, content=content, params=params, headers={"Content-Type": content_type}
        )
        return _checked(answer.status_code, answer.content, f"{method} {path}")

    async def get(self, kind: str, namespace: str, name: str) -> Obj | None:
        """The object; None where the API server says that there is none."""
        try:
            return await self._send("GET", RESOURCES[kind].at(namespace, name))
        except KubeError as error:
            if error.code == 404:
                return None
            raise

    async def create(self, obj: Obj) -> Obj:
        """Make the object. Raises KubeError 409 where it exists."""
        return await self._send("POST", RESOURCES[obj["kind"]].at(namespace_of(obj)), obj)

    async def apply(self, obj: Obj) -> Obj:
        """Make the object or make it so, by server-side apply."""
        path = RESOURCES[obj["kind"]].at(namespace_of(obj), name_of(obj))
        params = {"fieldManager": names.FIELD_MANAGER, "force": "true"}
        return await self._send("PATCH", path, obj, content_type=APPLY, params=params)

    async def patch(self, obj: Obj, body: Obj, *, subresource: str = "", content_type: str = MERGE) -> Obj:
        """Change parts of the object."""
        path = RESOURCES[obj["kind"]].at(namespace_of(obj), name_of(obj))
        end = f"/{subresource}" if subresource else ""
        return await self._send("PATCH", path + end, body, content_type=content_type)

    async def delete(self, obj: Obj) -> None:
        """Delete this very object (by its UID); nothing where it is gone or another."""
        path = RESOURCES[obj["kind"]].at(namespace_of(obj), name_of(obj))
        body = {"preconditions": {"uid": dig(obj, "metadata", "uid")}}
        try:
            await self._send("DELETE", path, body)
        except KubeError as error:
            if error.code not in {404, 409}:
                raise

    async def list(self, kind: str) -> tuple[list[Obj], str]:
        """Every object of a kind in all namespaces, and the version to watch from."""
        out: list[Obj] = []
        token = ""
        while True:
            page = await self._send("GET", RESOURCES[kind].at(), params={"limit": "500", "continue": token})
            items: list[Obj] = page.get("items") or []
            for item in items:
                item["kind"] = kind
                out.append(item)
            token = dig(page, "metadata", "continue", default="")
            if not token:
                return out, page["metadata"]["resourceVersion"]

    async def watch(self, kind: str, version: str) -> AsyncIterator[tuple[str, Obj]]:
        """Events after ``version`` until the API server ends the watch. Raises KubeError 410 for a version too old."""
        params = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_TIMEOUT_SECONDS),
        }
        timeout = httpx.Timeout(REQUEST_TIMEOUT_SECONDS, read=WATCH_TIMEOUT_SECONDS + REQUEST_TIMEOUT_SECONDS)
        path = RESOURCES[kind].at()
        async with self._client.stream("GET", path, params=params, timeout=timeout) as answer:
            if answer.status_code >= 400:
                _checked(answer.status_code, await answer.aread(), f"watch {path}")
            async for line in answer.aiter_lines():
                event: Obj = json.loads(line)
                found: Obj = event["object"]
                if event["type"] == "ERROR":
                    raise KubeError(found.get("code", 500), found.get("reason", ""), str(found.get("message", "")))
                found["kind"] = kind
                yield event["type"], found


def _checked(code: int, content: bytes, what: str) -> Obj:
    try:
        body: Obj = json.loads(content) if content else {}
    except ValueError:
        body = {"message": content[:300].decode(errors="replace")}
    if code >= 400:
        raise KubeError(code, str(body.get("reason", "")), f"{what}: {code} {body.get('message', '')}")
    return body
