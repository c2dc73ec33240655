"""How to reach an API server: from a kubeconfig (file or text), or from inside a pod."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import httpx
import msgspec

from sparewheel.kube.kubeconfig import AccessError, read_kubeconfig

__all__ = ["Access", "AccessError", "from_environment", "from_file", "from_text", "in_cluster"]

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """Address, TLS and credentials of one API server."""

    server: str
    tls: ssl.SSLContext | bool
    auth: httpx.Auth | None = None
    namespace: str = "default"


@dataclass(slots=True)
class TokenFileAuth(httpx.Auth):
    """Bearer token from a file, read again whenever the file changed (kubelet renews it)."""

    path: Path
    _token: str = ""
    _read_of: tuple[int, int] = (0, 0)

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        stat = self.path.stat()
        stamp = (stat.st_mtime_ns, stat.st_ino)
        if stamp != self._read_of:
            self._token, self._read_of = self.path.read_text().strip(), stamp
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


@dataclass(slots=True)
class TokenAuth(httpx.Auth):
    token: str

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        request.headers["Authorization"] = f"Bearer {self.token}"
        yield request


@dataclass(slots=True)
class ExecAuth(httpx.Auth):
    """Token from the kubeconfig's ``exec`` plugin, asked for again after a 401."""

    command: list[str]
    env: dict[str, str] = field(default_factory=dict[str, str])
    api_version: str = "client.authentication.k8s.io/v1"
    _token: str = ""

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        fresh = not self._token
        if fresh:
            self._token = await self._ask()
        request.headers["Authorization"] = f"Bearer {self._token}"
        response = yield request
        if response.status_code == 401 and not fresh:
            self._token = await self._ask()
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    async def _ask(self) -> str:
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
        env = {**os.environ, **self.env, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(*self.command, env=env, stdout=pipe, stderr=pipe)
        except OSError as error:
            raise AccessError(f"credential plugin {self.command[0]} can't be run: {error}; install it") from error
        out, err = await process.communicate()
        if process.returncode != 0:
            last = (err.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
            raise AccessError(f"credential plugin {self.command[0]} failed with {process.returncode}: {last}")
        try:
            return str(msgspec.json.decode(out)["status"]["token"])
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise AccessError(f"credential plugin {self.command[0]} printed no ExecCredential with a token") from error


def in_cluster(folder: Path = SERVICE_ACCOUNT) -> Access:
    """Access of a pod through its service account."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if host is None or not (folder / "token").exists():
        raise AccessError(f"not in a pod: KUBERNETES_SERVICE_HOST or {folder / 'token'} is missing; give a kubeconfig")
    address = f"[{host}]" if ":" in host else host
    namespace = folder / "namespace"
    return Access(
        server=f"https://{address}:{port}",
        tls=ssl.create_default_context(cafile=str(folder / "ca.crt")),
        auth=TokenFileAuth(folder / "token"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def from_environment() -> Access:
    """$KUBECONFIG, else the pod's service account, else ~/.kube/config."""
    named = os.environ.get("KUBECONFIG")
    if named:
        return from_file(Path(named.split(os.pathsep)[0]))
    if "KUBERNETES_SERVICE_HOST" in os.environ and (SERVICE_ACCOUNT / "token").exists():
        return in_cluster()
    return from_file(Path("~/.kube/config"))


def from_file(path: Path, context: str | None = None) -> Access:
    path = path.expanduser()
    try:
        text = path.read_text()
    except OSError as error:
        raise AccessError(
            f"kubeconfig {path} can't be read: {error.strerror}; set KUBECONFIG to your cluster's"
        ) from error
    except UnicodeDecodeError as error:
        raise AccessError(f"kubeconfig {path} is no text; set KUBECONFIG to the right file") from error
    return from_text(text, context, folder=path.parent, source=str(path))


def from_text(
    text: str, context: str | None = None, *, folder: Path | None = None, source: str = "kubeconfig"
) -> Access:
    """Access by one context of a kubeconfig; relative file names are taken from ``folder``."""
    chosen = read_kubeconfig(text, context, source)
    base = folder or Path()
    try:
        tls = _tls(chosen.cluster, chosen.user, base) if chosen.server.startswith("https") else True
        auth = _auth(chosen.user, base)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise AccessError(
            f"{source}, context {chosen.name}: certificate, key or token can't be used: {error}"
        ) from error
    return Access(chosen.server, tls, auth, chosen.namespace)


def _tls(cluster: dict[str, Any], user: dict[str, Any], base: Path) -> ssl.SSLContext:
    authority = _pem(cluster, "certificate-authority", base)
    tls = ssl.create_default_context(cadata=authority) if authority else ssl.create_default_context()
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    certificate, key = _pem(user, "client-certificate", base), _pem(user, "client-key", base)
    if certificate and key:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # mode 0600; ssl reads files only
            file.write(f"{certificate}\n{key}\n")
            file.flush()
            tls.load_cert_chain(file.name)
    return tls


def _pem(section: dict[str, Any], key: str, base: Path) -> str:
    """Content of ``KEY-data`` (base64) or of the file named by ``KEY``."""
    data = section.get(f"{key}-data")
    if data:
        return base64.b64decode("".join(str(data).split()), validate=True).decode()
    name = section.get(key)
    return (base / str(name)).read_text() if name else ""


def _auth(user: dict[str, Any], base: Path) -> httpx.Auth | None:
    if user.get("tokenFile"):
        return TokenFileAuth(base / str(user["tokenFile"]))
    if user.get("token"):
        return TokenAuth(str(user["token"]))
    plugin = cast("dict[str, Any] | None", user.get("exec"))
    if plugin:
        arguments = cast("list[Any]", plugin.get("args") or [])
        variables = cast("list[dict[str, Any]]", plugin.get("env") or [])
        return ExecAuth(
            command=[str(plugin["command"]), *(str(argument) for argument in arguments)],
            env={str(item["name"]): str(item["value"]) for item in variables},
            api_version=str(plugin.get("apiVersion", "client.authentication.k8s.io/v1")),
        )
    return None
