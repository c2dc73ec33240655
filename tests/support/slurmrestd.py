"""Answers of slurmrestd 26.05.5, cut to a few fields, and a client that gets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

from sparewheel.slurm.client import SlurmClient

META = {"slurm": {"version": {"major": "26", "micro": "5", "minor": "05"}, "release": "26.05.5", "cluster": "slurm"}}


def number(value: int, *, known: bool = True) -> dict[str, Any]:
    return {"set": known, "infinite": False, "number": value}


JOB = {
    "job_id": 27,
    "name": "train",
    "user_name": "alice",
    "partition": "gpu",
    "job_state": ["RUNNING"],
    "state_reason": "None",
    "extra": '{"a":1}',
    "comment": "mine",
    "restart_cnt": 1,
    "requeue": True,
    "hold": False,
    "batch_flag": True,
    "flags": ["JOB_WAS_RUNNING", "EXPEDITED_REQUEUE"],
    "nodes": "gpu-[0-1]",
    "start_time": number(1796010013),
    "end_time": number(1827546013),
    "submit_time": number(1796010013),
    "exit_code": {
        "status": ["SUCCESS"],
        "return_code": number(0),
        "signal": {"id": number(0, known=False), "name": ""},
    },
    "array_job_id": number(0),
    "het_job_id": number(0),
}
NODE = {
    "name": "gpu-0",
    "state": ["DOWN", "DRAIN", "DYNAMIC_NORM"],
    "reason": "sparewheel: XID 79",
    "comment": "{}",
    "boot_time": number(1796000000),
    "slurmd_start_time": number(0),
    "reason_changed_at": number(1796000100),
    "partitions": ["gpu"],
    "real_memory": 24105,
    "gres": "gpu:8",
}


RESERVATION = {
    "name": "sparewheel-spare-gpu-2",
    "node_list": "gpu-[2-3]",
    "users": "root,slurm",
    "accounts": "",
    "flags": ["MAINT", "IGNORE_JOBS", "SPEC_NODES"],
    "start_time": number(1796010013),
    "end_time": number(1827546013),
    "node_count": 2,
    "partition": "",
}


class Token:
    def __init__(self) -> None:
        self.asked: list[bool] = []

    async def token(self, *, fresh: bool = False) -> str:
        self.asked.append(fresh)
        return "new" if fresh else "old"


def client_of(handler: Callable[[httpx.Request], httpx.Response]) -> SlurmClient:
    return SlurmClient("http://rest.test:6820", Token(), transport=httpx.MockTransport(handler))


def answering(status: int, body: dict[str, Any] | str) -> SlurmClient:
    text = body if isinstance(body, str) else json.dumps({"errors": [], "warnings": [], "meta": META, **body})
    return client_of(lambda _: httpx.Response(status, text=text))


def problem(error_number: int, error: str = "", description: str = "") -> dict[str, Any]:
    return {"description": description, "error_number": error_number, "error": error, "source": "x"}
