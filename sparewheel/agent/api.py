"""A very small Kubernetes client: standard library only, one kept connection, the token read anew each time."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from sparewheel.agent.limited import LimitedSocket

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class ApiError(Exception):
    """The API server could not be asked or refused; ``status`` is 0 when there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class ApiServer:
    """Requests to one API server; every one may raise ApiError.

    ``timeout_seconds``: to connect, and again for the TLS handshake. ``deadline_seconds``: for a whole request with its
    second try, however slowly the answer trickles in.
    """

    host: str
    port: int
    service_account: Path = SERVICE_ACCOUNT
    timeout_seconds: float = 5.0
    deadline_seconds: float = 10.0
    monotonic_seconds: Callable[[], float] = field(default=time.monotonic)
    _said: datetime | None = None
    """The server's time when it last answered."""
    _said_at: float = 0.0
    _connection: http.client.HTTPConnection | None = None
    _limited: LimitedSocket | None = None

    def now(self) -> datetime:
        """The server's time, for what is compared with times that other machines wrote; ours until it has said one."""
        if self._said is None:
            return datetime.now(UTC)
        return self._said + timedelta(seconds=self.monotonic_seconds() - self._said_at)

    def request(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        """Send and decode JSON. A kept connection that broke is made anew once, for any method: all are idempotent."""
        try:
            token = (self.service_account / "token").read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ApiError(f"{method} {path}: the service account's token cannot be read ({error})") from error
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "Content-Type": content_type}
        payload = None if body is None else json.dumps(body)
        fresh = self._connection is None
        until = self.monotonic_seconds() + self.deadline_seconds
        try:
            return self._send(method, path, payload, headers, until)
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            if fresh:
                raise ApiError(f"{method} {path}: no answer from the API server ({error})") from error
        try:
            return self._send(method, path, payload, headers, until)
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise ApiError(f"{method} {path}: no answer from the API server ({error})") from error

    def _send(self, method: str, path: str, payload: str | None, headers: dict[str, str], until: float) -> Any:
        connection = self._connected(until)
        connection.request(method, path, payload, headers)
        response = connection.getresponse()
        self._note_time(response.getheader("Date", ""))
        text = response.read()
        if response.status >= 400:
            raise ApiError(f"{method} {path}: HTTP {response.status} {text[:300]!r}", response.status)
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            raise ApiError(f"{method} {path}: the answer is no JSON ({error})") from error

    def _note_time(self, date: str) -> None:
        try:
            said = parsedate_to_datetime(date)
        except ValueError:
            return
        if said.tzinfo is not None:
            self._said, self._said_at = said, self.monotonic_seconds()

    def _connected(self, until: float) -> http.client.HTTPConnection:
        """The kept connection, or a new one; what is done on it ends at ``until``."""
        if self._connection is None:
            context = ssl.create_default_context(cafile=str(self.service_account / "ca.crt"))
            self._connection = http.client.HTTPSConnection(self.host, self.port, context=context)
        connection, limited = self._connection, self._limited
        if limited is None or connection.sock is None:
            left = until - self.monotonic_seconds()
            if left <= 0:
                raise TimeoutError(f"not within {self.deadline_seconds:g} s")
            connection.timeout = min(self.timeout_seconds, left)
            connection.connect()
            plain: Any = connection.sock
            connection.sock = self._limited = limited = LimitedSocket(plain, self.monotonic_seconds)
        limited.until = until
        return connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
