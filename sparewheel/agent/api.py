"""A very small Kubernetes client: standard library only, one kept connection, the token read anew each time."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class ApiError(Exception):
    """The API server could not be asked or refused; ``status`` is 0 when there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class ApiServer:
    """Requests to one API server; every one may raise ApiError."""

    host: str
    port: int
    service_account: Path = SERVICE_ACCOUNT
    timeout_seconds: float = 5.0
    _connection: http.client.HTTPSConnection | None = None

    def request(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        """Send and decode JSON. A kept connection that broke is made anew once, for any method: all are idempotent."""
        try:
            token = (self.service_account / "token").read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ApiError(f"{method} {path}: the service account's token cannot be read ({error})") from error
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "Content-Type": content_type}
        payload = None if body is None else json.dumps(body)
        fresh = self._connection is None
        try:
            return self._send(method, path, payload, headers)
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            if fresh:
                raise ApiError(f"{method} {path}: no answer from the API server ({error})") from error
        try:
            return self._send(method, path, payload, headers)
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise ApiError(f"{method} {path}: no answer from the API server ({error})") from error

    def _send(self, method: str, path: str, payload: str | None, headers: dict[str, str]) -> Any:
        if self._connection is None:
            context = ssl.create_default_context(cafile=str(self.service_account / "ca.crt"))
            self._connection = http.client.HTTPSConnection(
                self.host, self.port, timeout=self.timeout_seconds, context=context
            )
        self._connection.request(method, path, payload, headers)
        response = self._connection.getresponse()
        text = response.read()
        if response.status >= 400:
            raise ApiError(f"{method} {path}: HTTP {response.status} {text[:300]!r}", response.status)
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            raise ApiError(f"{method} {path}: the answer is no JSON ({error})") from error

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
