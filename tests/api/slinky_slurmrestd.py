"""A small slurmrestd on loopback: node records in memory, v0.0.44 paths, tokens checked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jwt

Obj = dict[str, Any]


class FakeSlurm:
    """``nodes``: records by name; ``writes``: every update in order; ``failing``: answer errors with HTTP 200."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.nodes: dict[str, Obj] = {}
        self.jobs: list[Obj] = []
        self.writes: list[tuple[str, Obj]] = []
        self.failing = False
        self.url = ""

    def register(self, name: str, *states: str, reason: str = "", comment: str = "") -> None:
        self.nodes[name] = {"name": name, "state": list(states), "reason": reason, "comment": comment}

    def states(self, name: str) -> set[str]:
        return set(self.nodes[name]["state"])

    def answer(self, method: str, path: str, headers: dict[str, str], body: Obj) -> Obj:
        claims = jwt.decode(headers["x-slurm-user-token"], self.key, algorithms=["HS256"])
        assert claims["sun"] == headers["x-slurm-user-name"] == "slurm"
        if self.failing:
            return {"errors": [{"description": "Unable to contact slurm controller", "error_number": 1007}]}
        what = path.removeprefix("/slurm/v0.0.44/").strip("/")
        if what == "ping":
            return {"pings": [{"hostname": "slurm-controller-0", "pinged": "UP", "mode": "primary"}], "errors": []}
        if what == "nodes":
            return {"nodes": list(self.nodes.values()), "errors": []}
        if what == "jobs":
            return {"jobs": self.jobs, "errors": []}
        name = what.removeprefix("node/")
        if method != "POST" or name not in self.nodes:
            return {"errors": [{"description": "Invalid node name specified"}]}
        self.update(name, body)
        return {"errors": []}

    def update(self, name: str, body: Obj) -> None:
        self.writes.append((name, body))
        record = self.nodes[name]
        for state in body.get("state", []):
            held = set(record["state"])
            if state == "DRAIN":
                held.add("DRAIN")
            elif state == "UNDRAIN":
                held.discard("DRAIN")
            elif state == "IDLE":
                held = (held - {"DOWN"}) | {"IDLE"}
                record["reason"] = ""
            record["state"] = sorted(held)
        for field in ("reason", "comment"):
            if field in body:
                record[field] = body[field]


@asynccontextmanager
async def serving(slurm: FakeSlurm) -> AsyncIterator[FakeSlurm]:
    """Serve on a free loopback port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                method, path, _ = line.decode().split()
                headers: dict[str, str] = {}
                while (header := (await reader.readline()).decode().strip()) != "":
                    key, _, value = header.partition(":")
                    headers[key.lower()] = value.strip()
                raw = await reader.readexactly(int(headers.get("content-length", "0")))
                out = json.dumps(slurm.answer(method, path, headers, json.loads(raw) if raw else {})).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(out)}\r\n\r\n"
                writer.write(head.encode() + out)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    slurm.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield slurm
    finally:
        server.close()
