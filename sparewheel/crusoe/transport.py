"""One signed request, sent again where that is safe: its retries, deadlines and errors."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from random import Random
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import httpx

from sparewheel.clock import Clock
from sparewheel.crusoe.errors import (
    CrusoeError,
    NoAnswerError,
    UnknownOutcomeError,
    plain,
    refused,
)
from sparewheel.crusoe.signing import Credentials, signed_headers

TIMEOUT: Final = httpx.Timeout(30.0, connect=10.0, pool=None)
RETRIED: Final = frozenset({409, 429, 500, 502, 503, 504})
FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 30.0
NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class Call:
    """``what`` names the object and the wish, for people. ``repeatable``: sending it twice ends as sending it once."""

    method: str
    path: str
    what: str
    query: Mapping[str, str] | None = None
    body: Mapping[str, Any] | None = None
    repeatable: bool = True


@cache
def _tls() -> ssl.SSLContext:
    """Made once: reading the system's authorities takes longer than a request."""
    return ssl.create_default_context()


class Transport:
    """``url`` ends in the API's version. ``call_seconds``: how long one call may be tried, waits included."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        clock: Clock,
        *,
        call_seconds: float = 60.0,
        random: Callable[[], float] | None = None,
        http: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._prefix = urlsplit(self._url).path
        self._credentials = credentials
        self._clock = clock
        self._call_seconds = call_seconds
        self._random = random or Random().random  # noqa: S311 - spreads retries, keeps no secret
        self._http = httpx.AsyncClient(timeout=TIMEOUT, transport=http, trust_env=False, verify=_tls())

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, call: Call) -> bytes:
        """The answer's body. Waits and retries on the clock that was passed in, each try signed anew."""
        until = self._clock.monotonic_seconds() + self._call_seconds
        attempt = 0
        while True:
            attempt += 1
            wait: float | None = None
            try:
                response = await self._once(call)
            except httpx.TransportError as error:
                cause = str(error) or type(error).__name__
                problem: CrusoeError = NoAnswerError(
                    f"{call.what}: no answer from {self._url} ({cause}); nothing is known about it, try again"
                )
                if not call.repeatable and not isinstance(error, NEVER_SENT):
                    raise _unknown(call, cause) from error
            else:
                if response.is_success:
                    return response.content
                problem = self._problem(call, response)
                if response.status_code not in RETRIED:
                    raise problem
                if response.status_code >= 500 and not call.repeatable:
                    raise _unknown(call, f"{response.status_code}") from problem
                wait = self._retry_after(response)
            delay = self._backoff(attempt) if wait is None else wait
            if self._clock.monotonic_seconds() + delay > until:
                raise problem
            await self._clock.sleep(delay)

    async def _once(self, call: Call) -> httpx.Response:
        query = urlencode(call.query or {})
        headers = signed_headers(self._credentials, call.method, self._prefix + call.path, query, self._clock.now())
        headers["Accept"] = "application/json"
        content = None
        if call.body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(call.body).encode()
        address = f"{self._url}{call.path}" + (f"?{query}" if query else "")
        return await self._http.request(call.method, address, headers=headers, content=content)

    def _problem(self, call: Call, response: httpx.Response) -> CrusoeError:
        status, text = response.status_code, self._said(response)
        if status >= 500:
            return NoAnswerError(f"{call.what}: Crusoe answered {status} {text}; nothing is known, try again")
        if 300 <= status < 400:
            return CrusoeError(f"{call.what}: {self._url} answers {status}, it is not Crusoe's API; check url")
        return refused(call.what, status, text)

    def _said(self, response: httpx.Response) -> str:
        try:
            body: Any = json.loads(response.content)
        except ValueError:
            return response.reason_phrase
        words: dict[str, Any] = dict(body) if isinstance(body, dict) else {}  # pyright: ignore[reportUnknownArgumentType]
        text = str(words.get("message") or words.get("code") or response.reason_phrase)
        number = str(words.get("error_id") or "")
        used = response.request.headers.get("Authorization", "").rpartition(":")[2]
        return plain(f"{text} (error id {number})" if number else text, (self._credentials.secret_key, used))

    def _backoff(self, attempt: int) -> float:
        return min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (attempt - 1)) * (0.5 + self._random() / 2)

    def _retry_after(self, response: httpx.Response) -> float | None:
        """Seconds or a date."""
        text = response.headers.get("Retry-After", "").strip()
        if text.isdecimal():
            return float(text)
        try:
            return max(0.0, (parsedate_to_datetime(text) - self._clock.now()).total_seconds()) if text else None
        except (ValueError, TypeError):
            return None


def _unknown(call: Call, cause: str) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"{call.what}: the answer was lost ({cause}), so it may have been done; look in the console, or run it again: "
        "it looks at what is there first"
    )
