"""An API server that is slow: between some pods and it stands a proxy that keeps each of their requests back."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from lab.cluster.bootstrap import kubectl
from lab.cluster.shell import run
from lab.machines.inventory import API_PORT, MACHINE_IP
from lab.paths import Paths
from sparewheel.api.names import NAMESPACE
from tests.lab.waiting import eventually

PORT = 16443
TABLE = "sparewheel_slow"
CONTROLLER_PODS = "app.kubernetes.io/name=sparewheel-controller"
CHUNK_BYTES = 65536


@dataclass(slots=True)
class SlowProxy:
    """Ends TLS with the API server's own certificate; what a client sends goes on after the delay, also when the
    client has hung up meanwhile, as packets do that are on their way. Answers go on at once."""

    paths: Paths
    delay_seconds: float
    kept_back: int = 0
    """How often something was."""
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    @contextmanager
    def running(self) -> Iterator[None]:
        asyncio.set_event_loop(None)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, MACHINE_IP, PORT, ssl=self._as_server())
        )
        thread = threading.Thread(target=self._loop.run_forever, name="slow API server", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(server.close)
            self.hang_up()
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(timeout=10)
            assert not thread.is_alive()
            self._loop.close()

    def hang_up(self) -> None:
        """Every connection ends, so that nobody waits for an answer on one that leads nowhere."""

        async def end() -> None:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0.2)  # their ends get out

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)

    def _as_server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.paths.pki / "apiserver.crt", self.paths.pki / "apiserver.key")
        return context

    async def _serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                await self._forward(client, answers)
        finally:
            self._tasks.discard(task)
            answers.close()

    async def _forward(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        context = ssl.create_default_context(cafile=str(self.paths.pki / "ca.crt"))
        server, requests = await asyncio.open_connection(MACHINE_IP, API_PORT, ssl=context)
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        back = asyncio.create_task(_copy(server, answers))
        taken = asyncio.create_task(self._take(client, late))
        try:
            while True:
                due, piece = await late.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                if not piece:
                    return
                self.kept_back += 1
                requests.write(piece)
                await requests.drain()
        finally:
            taken.cancel()
            back.cancel()
            requests.close()

    async def _take(self, client: asyncio.StreamReader, late: asyncio.Queue[tuple[float, bytes]]) -> None:
        piece = b"-"
        while piece:
            try:
                piece = await client.read(CHUNK_BYTES)
            except OSError:
                piece = b""
            late.put_nowait((self._loop.time() + self.delay_seconds, piece))


async def _copy(server: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await server.read(CHUNK_BYTES):
            answers.write(piece)
            await answers.drain()
        answers.close()


def controllers(paths: Paths) -> dict[str, str]:
    """Pod to address."""
    pods = json.loads(kubectl(paths, "-n", NAMESPACE, "get", "pods", "-l", CONTROLLER_PODS, "-o", "json"))["items"]
    return {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in pods}


@contextmanager
def slow(paths: Paths, delay_seconds: float, pods: Collection[str] = ()) -> Iterator[SlowProxy]:
    """The controllers' requests are late; ``pods``: only those of these."""
    addresses = [ip for name, ip in controllers(paths).items() if not pods or name in pods]
    assert addresses
    proxy = SlowProxy(paths, delay_seconds)
    rule = f"ip saddr {{ {', '.join(addresses)} }} ip daddr {MACHINE_IP} tcp dport {API_PORT} redirect to :{PORT}"
    chain = f"add chain ip {TABLE} pre {{ type nat hook prerouting priority -110; }}"
    with proxy.running():
        run(["nft", "-f", "-"], stdin=f"add table ip {TABLE}\n{chain}\nadd rule ip {TABLE} pre {rule}\n")
        try:
            _cut(addresses)
            eventually(lambda: proxy.kept_back > 0, 60, lambda: "no request came by the slow way")
            yield proxy
        finally:
            proxy.hang_up()
            run(["nft", "delete", "table", "ip", TABLE])
            _cut(addresses)


def _cut(addresses: Collection[str]) -> None:
    """Connections that are there take the new way, or the old one, from now on."""
    for address in addresses:
        subprocess.run(
            ["conntrack", "-D", "-p", "tcp", "--orig-src", address, "--orig-port-dst", str(API_PORT)],
            check=False, capture_output=True, timeout=20,
        )  # fmt: skip
