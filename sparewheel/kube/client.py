"""The real Kubernetes client: objects as plain JSON over httpx, errors told apart strictly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from types import TracebackType
from typing import Final, Self, cast

import httpx
import msgspec
import stamina

from sparewheel.api.names import FIELD_MANAGER
from sparewheel.http import connections
from sparewheel.kube.access import Access, AccessError
from sparewheel.kube.answers import (
    Read,
    Request,
    error_from_status,
    error_from_watch,
    read_fields,
    read_object,
    read_page,
    understood,
)
from sparewheel.kube.objects import selector_of, typed
from sparewheel.kube.pace import CALLS_IN_FLIGHT, URGENCY, Pace, Urgency
from sparewheel.kube.port import POD, GoneError, Json, Keep, Listing, Resource, UnavailableError, WatchEvent, opened

PAGE: Final = 500
PAGE_CUT_DOWN: Final = 250
"""Of objects of which most is dropped at once: what a page takes until then stays small, 13 KB for each Node."""
LONG_LISTS: Final = 2
"""Pages of whole kinds that are read at a time: with twenty, a lease waits for its turn until it is lost."""
WATCH_SECONDS: Final = 55
"""The server ends a watch after this, just after a bookmark; a new one goes on from there."""
WATCH_SILENCE_SECONDS: Final = 70.0
"""An idle watch may stay silent until its end (seen on 1.36); one silent for longer is dead."""
TIMEOUT: Final = httpx.Timeout(15.0, connect=5.0, pool=None)
"""The pool has no time-out: who waits for a connection, behind many others' requests, has not failed."""
WATCH_CONNECTIONS: Final = 16
"""Beside those of requests in flight: a watch holds its own for as long as it runs."""
LEASE_CONNECTIONS: Final = 4
"""A lease's own: behind slow answers to others it would wait for a connection until it is lost."""
NOT_PACKED: Final = {"Accept-Encoding": "identity"}
"""For a program in the cluster: packing and unpacking long lists takes more of both than the network does."""
WRITE_OPTIONS: Final = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}


def path_of(resource: Resource, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
    """The URL path of a collection, an object or a subresource."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    space = f"/namespaces/{namespace}" if resource.namespaced and namespace else ""
    parts = [root + space, resource.plural, name, subresource]
    return "/".join(part for part in parts if part)


class KubeClient:
    """Implements ``sparewheel.kube.port.Kube``. Reads are retried briefly; writes never: their caller decides.

    ``pace`` limits requests for each second and those in flight; without one, as on the command line, nothing waits but
    for a connection, or behind two long lists.
    """

    def __init__(
        self,
        access: Access,
        *,
        read_attempts: int = 3,
        timeout: httpx.Timeout = TIMEOUT,
        transport: httpx.AsyncBaseTransport | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.access = access
        self._pace = pace
        self._read_attempts = read_attempts
        self._long_lists = asyncio.Semaphore(LONG_LISTS)
        in_flight = CALLS_IN_FLIGHT if pace is None else pace.in_flight
        self._http, self._lease_http = (
            httpx.AsyncClient(
                base_url=access.server,
                auth=access.auth,
                headers=NOT_PACKED if pace is not None else None,
                timeout=timeout,
                transport=transport or connections(access.tls, most),
                trust_env=False,
            )
            for most in (in_flight + WATCH_CONNECTIONS, LEASE_CONNECTIONS)
        )

    async def close(self) -> None:
        await self._http.aclose()
        await self._lease_http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        request = Request("get", resource, name, namespace)
        return await self._read(request, path_of(resource, namespace, name), {}, read_object)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: Mapping[str, str] | None = None,
        field_selector: str | None = None,
        keep: Keep | None = None,
    ) -> Listing:
        for fresh_start in (False, True):
            try:
                pages = [page async for page in self._pages(resource, namespace, label_selector, field_selector, keep)]
            except GoneError:  # the continue token grew too old between two pages: begin again, once
                if fresh_start:
                    raise
            else:
                return Listing([item for page in pages for item in page.items], pages[-1].resource_version)
        raise AssertionError("unreachable")

    def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        label_selector: Mapping[str, str] | None = None,
        keep: Keep | None = None,
    ) -> AsyncIterator[Listing]:
        return self._pages(resource, namespace, label_selector, None, keep)

    async def _pages(
        self,
        resource: Resource,
        namespace: str | None,
        label_selector: Mapping[str, str] | None,
        field_selector: str | None,
        keep: Keep | None,
    ) -> AsyncGenerator[Listing, None]:
        request, path = Request("list", resource, "", namespace), path_of(resource, namespace)
        params: dict[str, str] = {"limit": str(PAGE if keep is None else PAGE_CUT_DOWN), **selector_of(label_selector)}
        if field_selector:
            params["fieldSelector"] = field_selector
        while True:
            async with nullcontext() if field_selector or URGENCY.get() <= Urgency.FENCE else self._long_lists:
                page = await self._read(request, path, params, read_page)
                if page.items is msgspec.UNSET:  # something else answered: never read as "there are none"
                    raise UnavailableError(f"{request}: {self.access.server} sent no list; is it an API server?")
                found = (understood(request, row, read_object) for row in page.items or [])
                rows = (typed(resource, row) for row in found)  # one at a time: a page is large
                items = list(rows if keep is None else map(keep, rows))
            yield Listing(items, str(page.metadata.get("resourceVersion", "")))
            params["continue"] = str(page.metadata.get("continue") or "")
            if not params["continue"]:
                return

    async def watch(
        self,
        resource: Resource,
        resource_version: str,
        namespace: str | None = None,
        label_selector: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        request = Request("watch", resource, "", namespace)
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(WATCH_SECONDS),
            **selector_of(label_selector),
        }
        timeout = httpx.Timeout(WATCH_SILENCE_SECONDS, connect=5.0, pool=5.0)
        try:
            async with AsyncExitStack() as stream:
                async with self._turn():  # until it is answered: a watch that runs takes no place
                    begun = self._http.stream("GET", path_of(resource, namespace), params=params, timeout=timeout)
                    response = await stream.enter_async_context(begun)
                if response.status_code != 200:
                    await response.aread()
                    raise error_from_status(request, response)
                yield opened(resource_version)
                async for line in response.aiter_lines():
                    if not line:
                        continue
                    event = cast("Json", msgspec.json.decode(line))
                    if event["type"] == "ERROR":
                        raise error_from_watch(request, cast("Json", event["object"]))
                    yield WatchEvent(event["type"], read_fields(cast("Json", event["object"])))
        except (httpx.HTTPError, httpx.StreamError, msgspec.DecodeError, AccessError, OSError) as error:
            raise UnavailableError(f"{request}: {str(error) or type(error).__name__}") from error

    async def create(self, resource: Resource, body: Json, namespace: str | None = None) -> Json:
        name = str(body.get("metadata", {}).get("name", ""))
        space = namespace or body.get("metadata", {}).get("namespace")
        return await self._send(
            Request("create", resource, name, space),
            "POST",
            path_of(resource, space),
            WRITE_OPTIONS,
            typed(resource, body),
        )

    async def replace(
        self, resource: Resource, body: Json, namespace: str | None = None, subresource: str | None = None
    ) -> Json:
        name = str(body["metadata"]["name"])
        space = namespace or body["metadata"].get("namespace")
        path = path_of(resource, space, name, subresource)
        return await self._send(
            Request("replace", resource, name, space, subresource), "PUT", path, WRITE_OPTIONS, typed(resource, body)
        )

    async def merge_patch(
        self, resource: Resource, name: str, patch: Json, namespace: str | None = None, subresource: str | None = None
    ) -> Json:
        path = path_of(resource, namespace, name, subresource)
        request = Request("patch", resource, name, namespace, subresource)
        return await self._send(request, "PATCH", path, WRITE_OPTIONS, patch, "application/merge-patch+json")

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        uid: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        request = Request("delete", resource, name, namespace)
        await self._send(request, "DELETE", path_of(resource, namespace, name), {}, body)

    async def evict(self, pod: str, namespace: str, uid: str | None = None) -> None:
        options: Json = {"preconditions": {"uid": uid}} if uid is not None else {}
        body: Json = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": options,
        }
        request = Request("evict", POD, pod, namespace)
        await self._send(request, "POST", path_of(POD, namespace, pod, "eviction"), {}, body)

    def _turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self._pace is None else self._pace.turn()

    async def _read(
        self, request: Request, path: str, params: Mapping[str, str], read: Callable[[bytes], Read]
    ) -> Read:
        async for attempt in stamina.retry_context(
            on=UnavailableError, attempts=self._read_attempts, timeout=20.0, wait_initial=0.1, wait_max=2.0
        ):
            with attempt:
                return understood(request, await self._ask(request, "GET", path, params), read)
        raise AssertionError("unreachable")

    async def _send(
        self,
        request: Request,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: Json,
        content_type: str = "application/json",
    ) -> Json:
        answer = await self._ask(request, method, path, params, msgspec.json.encode(body), content_type)
        return understood(request, answer, read_object)

    async def _ask(
        self,
        request: Request,
        method: str,
        path: str,
        params: Mapping[str, str],
        content: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        headers = {"Accept": "application/json"} | ({} if content is None else {"Content-Type": content_type})
        http = self._lease_http if URGENCY.get() is Urgency.LEASE else self._http
        try:
            async with self._turn():
                response = await http.request(method, path, params=dict(params), content=content, headers=headers)
        except (httpx.HTTPError, AccessError, OSError) as error:
            raise UnavailableError(
                f"{request}: {self.access.server} did not answer: {str(error) or type(error).__name__}"
            ) from error
        if not response.is_success:
            raise error_from_status(request, response)
        return response.content
