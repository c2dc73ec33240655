"""``python -m bench.scale [--nodes N] [--struck N] [--rate N]``: the controller over ten thousand nodes."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import BenchError, await_, cpu_seconds, memory_mb
from bench.results import keep, show
from bench.scale.calls import USER, Audit, most_in_a_second
from bench.scale.fleet import make_fleet, node_name, report, xid_79
from bench.scale.kwok import heartbeats
from bench.scale.processes import ControllerProcess
from bench.scale.watching import Watching
from lab.api_server import free_port, running_api_server
from lab.toolchain.progress import note
from sparewheel.api.crd import crd_manifests
from sparewheel.kube.access import from_file
from sparewheel.kube.client import KubeClient
from sparewheel.kube.install import apply_crds

NODES_PER_JOB = 8
TRICKLE = 60
TRICKLE_PAUSE_SECONDS = 0.25
FIRST_LOOKS_SECONDS = 75.0
IDLE_SECONDS = 45.0


@dataclass(frozen=True, slots=True)
class Wanted:
    nodes: int = 10_000
    struck: int = 200
    rate: float = 48.0
    """Requests a second that the controller is allowed: with its bucket, full at first, and leases, 50 over a burst."""


async def measure(wanted: Wanted, folder: Path) -> dict[str, float]:
    """All figures of this scale."""
    audit = Audit(folder)
    slurm_port = free_port()
    slurm_url = f"http://127.0.0.1:{slurm_port}"
    with (
        running_api_server(folder, audit.arguments(), users=[USER]) as kubeconfig,
        _process(
            [sys.executable, "-m", "bench.scale.slurmrestd", str(slurm_port), str(wanted.nodes), str(NODES_PER_JOB)]
        ),
    ):
        async with KubeClient(from_file(kubeconfig)) as kube:
            await apply_crds(kube, crd_manifests())
            await make_fleet(kube, wanted.nodes, note)
            with heartbeats(kubeconfig):
                own = kubeconfig.with_name(f"kubeconfig-{USER}")
                return await _figures(wanted, kube, audit, own, slurm_url, folder)


async def _figures(
    wanted: Wanted, kube: KubeClient, audit: Audit, own: Path, slurm_url: str, folder: Path
) -> dict[str, float]:
    figures: dict[str, float] = {}

    def start(name: str) -> ControllerProcess:
        return ControllerProcess.start(own, slurm_url, folder, name, free_port(), wanted.rate)

    note("starting the controller")
    first = start("first")
    second: ControllerProcess | None = None
    try:
        figures["start_10k_seconds"] = await asyncio.to_thread(await_, "the controller leads", 120, first.leads)
        note(f"its first looks, {FIRST_LOOKS_SECONDS:g} s, then {IDLE_SECONDS:g} s in which nothing happens")
        figures["controller_first_looks_cpu_percent_10k_nodes"] = await _cpu_percent(first, FIRST_LOOKS_SECONDS)
        figures["controller_idle_cpu_percent_10k_nodes"] = await _cpu_percent(first, IDLE_SECONDS)
        async with _watching(kube) as watching:
            note(f"{TRICKLE} faults, one every {TRICKLE_PAUSE_SECONDS} s")
            figures |= await _trickle(wanted, kube, watching)
            note(f"{wanted.struck} faults at once")
            figures |= await _burst(wanted, kube, watching, audit, slurm_url)
        figures["controller_rss_mb_10k_nodes"] = memory_mb(first.process.pid)
        figures["controller_peak_rss_mb_10k_nodes"] = memory_mb(first.process.pid, "VmHWM")
        note("a second controller, then SIGKILL to the first")
        second = start("second")
        await asyncio.to_thread(await_, "the second has its caches", 120, lambda: second.health().get("unsynced") == [])
        killed = time.monotonic()
        first.stop(signal.SIGKILL)
        await asyncio.to_thread(await_, "the second leads", 60, second.leads)
        figures["failover_seconds"] = time.monotonic() - killed
    finally:
        for process in (first, second):
            if process is not None and process.process.poll() is None:
                process.stop()
    return figures


async def _cpu_percent(controller: ControllerProcess, seconds: float) -> float:
    """Of a core, over the next ``seconds``."""
    before = cpu_seconds(controller.process.pid), time.monotonic()
    await asyncio.sleep(seconds)
    return 100 * (cpu_seconds(controller.process.pid) - before[0]) / (time.monotonic() - before[1])


async def _trickle(wanted: Wanted, kube: KubeClient, watching: Watching) -> dict[str, float]:
    """One fault after the other: from the report to the incident's record, and to the fence."""
    chosen = [wanted.nodes - 1 - number * NODES_PER_JOB for number in range(TRICKLE)]
    reported: dict[str, float] = {}
    for index in chosen:
        await report(kube, index, [xid_79()])
        reported[node_name(index)] = time.time()
        await asyncio.sleep(TRICKLE_PAUSE_SECONDS)
    await watching.all_of(watching.recorded, reported, 60)
    await watching.all_of(watching.cordoned, reported, 60)
    decided = sorted(watching.recorded[name] - at for name, at in reported.items())
    fenced = sorted(watching.cordoned[name] - at for name, at in reported.items())
    return {
        "decision_p50_seconds": statistics.median(decided),
        "decision_p99_seconds": decided[int(0.99 * (len(decided) - 1) + 0.5)],
        "cordon_p50_seconds": statistics.median(fenced),
        "cordon_p99_seconds": fenced[int(0.99 * (len(fenced) - 1) + 0.5)],
    }


async def _burst(
    wanted: Wanted, kube: KubeClient, watching: Watching, audit: Audit, slurm_url: str
) -> dict[str, float]:
    """Many at once: until the last is cordoned, tainted and DOWN in Slurm."""
    chosen = [number * NODES_PER_JOB for number in range(wanted.struck)]
    names = {node_name(index): float(index) for index in chosen}
    began = time.time()
    async with asyncio.TaskGroup() as group:
        for index in chosen:
            group.create_task(report(kube, index, [xid_79()]))
    await watching.all_of(watching.cordoned, names, 300)

    def down() -> dict[str, float]:
        with urllib.request.urlopen(f"{slurm_url}/slurm/v0.0.44/bench", timeout=30) as answer:
            return json.load(answer)["down_at"]

    def all_down() -> bool:
        return all(f"w-{index}" in down() for index in chosen)

    await asyncio.to_thread(await_, "all struck nodes are DOWN", 120, all_down, 0.5)
    struck = down()
    ended = max(max(watching.cordoned[node_name(index)], struck[f"w-{index}"]) for index in chosen)
    seconds = ended - began
    calls = audit.calls(began, ended)
    return {
        f"fence_{wanted.struck}_of_10k_seconds": seconds,
        "fence_api_calls_per_second": len(calls) / seconds,
        "fence_api_calls_in_the_busiest_second": most_in_a_second(calls),
        "fence_api_calls_per_node": len(calls) / len(chosen),
    }


@asynccontextmanager
async def _watching(kube: KubeClient) -> AsyncGenerator[Watching, None]:
    watching = Watching(kube)
    task = asyncio.create_task(watching.run())
    await watching.ready.wait()
    yield watching
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@contextmanager
def _process(command: list[str]) -> Generator[None, None, None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)


def main() -> None:
    known = Wanted()
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--nodes", type=int, default=known.nodes)
    parser.add_argument("--struck", type=int, default=known.struck)
    parser.add_argument("--rate", type=float, default=known.rate)
    found = parser.parse_args()
    least = (TRICKLE + found.struck) * NODES_PER_JOB
    if found.nodes < least:
        why = f"{TRICKLE} and {found.struck} faults, each in a job of its own, need {least}"
        parser.error(f"--nodes {found.nodes}: {why}")
    with tempfile.TemporaryDirectory(prefix="sparewheel-bench-") as folder:
        try:
            figures = asyncio.run(measure(Wanted(found.nodes, found.struck, found.rate), Path(folder)))
        except BenchError as error:
            log = Path(folder) / "first.log"
            end = "\n".join(log.read_text("utf-8").splitlines()[-20:]) if log.exists() else ""
            raise SystemExit(f"{error}\nThe end of the controller's log:\n{end}") from None
    if found.nodes == known.nodes:
        keep(figures)
    show(figures)


if __name__ == "__main__":
    main()
