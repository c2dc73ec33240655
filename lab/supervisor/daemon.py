"""The supervisor's loop: starts units, restarts what dies, adopts what an earlier supervisor left running."""

import asyncio
import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from lab.supervisor.client import LOCK_NAME, SOCKET_NAME
from lab.supervisor.identity import Identity, machine_boot_id
from lab.supervisor.keeper import Keeper
from lab.supervisor.unit import read_unit

STATE_NAME = "state.json"


class Daemon:
    """One supervisor per runtime folder, guarded by a lock."""

    def __init__(self, run: Path) -> None:
        self.folder = run
        self.keepers: dict[str, Keeper] = {}
        self.done = asyncio.Event()
        self.is_init = os.getpid() == 1

    async def run(self) -> None:
        """Serve until shutdown."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = (self.folder / LOCK_NAME).open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another supervisor runs in {self.folder}")
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.done.set)
        loop.add_signal_handler(signal.SIGCHLD, self.reap_orphans)
        self.adopt()
        control = self.folder / SOCKET_NAME
        control.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self.serve, control)
        control.chmod(0o600)
        self.autostart()
        async with server:
            await self.done.wait()
        control.unlink(missing_ok=True)

    def adopt(self) -> None:
        """Take over processes recorded by an earlier supervisor of this boot."""
        path = self.folder / STATE_NAME
        if not path.exists():
            return
        record = json.loads(path.read_text())
        if record["boot_id"] != machine_boot_id():
            return
        for name, (pid, ticks) in record["units"].items():
            unit_file = self.folder / "units" / f"{name}.json"
            if unit_file.exists():
                self.keeper(name).adopt(read_unit(unit_file), Identity(pid, ticks))

    def autostart(self) -> None:
        """Start what is marked so."""
        for path in sorted((self.folder / "units").glob("*.json")):
            unit = read_unit(path)
            if unit.autostart:
                self.keeper(unit.name).start(unit)

    def keeper(self, name: str) -> Keeper:
        """The keeper of a unit, made at first use."""
        return self.keepers.setdefault(name, Keeper(name, self.save))

    def save(self) -> None:
        """Record who runs, for a successor."""
        units = {k.name: [k.identity.pid, k.identity.start_ticks] for k in self.keepers.values() if k.identity}
        part = self.folder / f"{STATE_NAME}.part"
        part.write_text(json.dumps({"boot_id": machine_boot_id(), "units": units}))
        part.rename(self.folder / STATE_NAME)

    def reap_orphans(self) -> None:
        """As process 1, collect dead children that no keeper waits for."""
        while self.is_init:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if info is None:
                return
            owner = next((k for k in self.keepers.values() if k.identity and k.identity.pid == info.si_pid), None)
            if owner is not None:
                owner.collect()
            else:
                os.waitpid(info.si_pid, os.WNOHANG)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            request = json.loads(await reader.readline())
            answer = await self.handle(request["verb"], request["name"])
        except (ValueError, OSError, KeyError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        try:
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
            writer.close()
        except ConnectionError:
            print("a client left before its answer", file=sys.stderr, flush=True)

    async def handle(self, verb: str, name: str) -> dict[str, Any]:
        """One verb."""
        if verb == "status":
            names = set(self.keepers) | {p.stem for p in (self.folder / "units").glob("*.json")}
            return {"units": [self.keeper(n).report() for n in sorted(names)]}
        if verb == "start":
            keeper = self.keeper(name)
            keeper.start(read_unit(self.folder / "units" / f"{name}.json"))
            return keeper.report()
        if verb == "stop":
            if name in self.keepers:
                await self.keepers[name].stop()
            return {}
        if verb == "shutdown":
            for keeper in sorted(self.keepers.values(), key=lambda k: k.started_at, reverse=True):
                await keeper.stop()
            self.done.set()
            return {}
        return {"error": f"unknown verb {verb!r} at {time.time():.0f}"}
