"""A slurmrestd of ten thousand nodes: records of real size, DOWN and requeue as Slurm does them.

``python -m bench.scale.slurmrestd PORT NODES NODES_PER_JOB``. Every node is named ``w-N`` and is in one running job.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Final

API: Final = "/slurm/v0.0.44/"
FILLER: Final = {f"field_{index:02d}": f"value of a field that nobody here reads {index}" for index in range(28)}
"""Brings a node's record to the size of a real one, about 2.5 KB."""

Record = dict[str, Any]


@dataclass(slots=True)
class Cluster:
    nodes: dict[str, Record] = field(default_factory=dict[str, Record])
    jobs: dict[int, Record] = field(default_factory=dict[int, Record])
    reservations: dict[str, Record] = field(default_factory=dict[str, Record])
    down_at: dict[str, float] = field(default_factory=dict[str, float])
    """Wall time of each DOWN."""
    requests: int = 0

    def fill(self, count: int, per_job: int) -> None:
        started = {"set": True, "infinite": False, "number": int(time.time()) - 3600}
        for index in range(count):
            record: Record = {"name": f"w-{index}", "state": ["ALLOCATED"], "reason": "", "slurmd_start_time": started}
            self.nodes[f"w-{index}"] = {**record, **FILLER}
        for first in range(0, count, per_job):
            names = [f"w-{index}" for index in range(first, min(first + per_job, count))]
            job_id = 1000 + first
            self.jobs[job_id] = {
                "job_id": job_id, "job_state": ["RUNNING"], "user_name": "alice", "name": "train", "partition": "gpu",
                "nodes": ",".join(names), "restart_cnt": 0, "batch_flag": True, "requeue": True,
                "flags": ["EXPEDITED_REQUEUE"], "start_time": started,
            }  # fmt: skip

    def answer(self, method: str, path: str, body: Record) -> Record:
        self.requests += 1
        what = path.removeprefix(API).strip("/")
        if what == "ping":
            version = {"major": "26", "minor": "05", "micro": "5"}
            return {"pings": [{"hostname": "ctl", "pinged": "UP", "responding": True}], "errors": [],
                    "meta": {"slurm": {"version": version, "release": "26.05.5"}}}  # fmt: skip
        lists = {"nodes": self.nodes, "jobs": self.jobs, "reservations": self.reservations}
        if what in lists:
            return {what: list(lists[what].values()), "errors": []}
        if what.startswith("bench"):
            return {"down_at": self.down_at, "requests": self.requests}
        kind, _, name = what.partition("/")
        if kind == "job" and name.isdigit() and int(name) in self.jobs:
            return {"jobs": [self.jobs[int(name)]], "errors": []} if method == "GET" else {"errors": []}
        if self._write(method, kind, name, body):
            return {"errors": []}
        return {"errors": [{"description": f"no {what}", "error_number": 9000}]}

    def _write(self, method: str, kind: str, name: str, body: Record) -> bool:
        """False: there is nothing of this name."""
        match method, kind:
            case "POST", "node" if name in self.nodes:
                self._set(name, body)
            case "POST", "reservation":
                listed = {"node_list": ",".join(body["node_list"]), "users": ",".join(body["users"])}
                self.reservations[body["name"]] = {**self.reservations.get(body["name"], {}), **body, **listed}
            case "DELETE", "reservation" if name in self.reservations:
                del self.reservations[name]
            case _:
                return False
        return True

    def _set(self, name: str, body: Record) -> None:
        record = self.nodes[name]
        record["state"], record["reason"] = list(body["state"]), body.get("reason", "")
        if "DOWN" in record["state"]:
            self.down_at.setdefault(name, time.time())
            for job in self.jobs.values():
                if name in job["nodes"].split(",") and job["job_state"] == ["RUNNING"]:
                    job.update(job_state=["PENDING"], restart_cnt=job["restart_cnt"] + 1, nodes="")


async def serve(cluster: Cluster, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """HTTP/1.1 with keep-alive, as much of it as httpx asks for."""
    try:
        while line := await reader.readline():
            method, path, _ = line.decode().split()
            length = 0
            while (header := await reader.readline()) not in (b"\r\n", b""):
                name, _, value = header.decode().partition(":")
                if name.lower() == "content-length":
                    length = int(value)
            body: Record = json.loads(await reader.readexactly(length)) if length else {}
            text = json.dumps(cluster.answer(method, path, body)).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
            writer.write(head.encode() + text)
            await writer.drain()
    except (OSError, ValueError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def main(port: int, nodes: int, per_job: int) -> None:
    cluster = Cluster()
    cluster.fill(nodes, per_job)
    server = await asyncio.start_server(lambda r, w: serve(cluster, r, w), "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:4])))
