"""``python -m bench.agent``: the agent on a flood of lines, and its memory and load beside a real API server."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.agent_lines import measure as measure_lines
from bench.processes import await_, cpu_seconds, memory_mb
from bench.results import keep, show
from lab.api_server import running_api_server
from lab.toolchain.progress import note
from sparewheel.api.crd import crd_manifests
from sparewheel.kube.access import from_file
from sparewheel.kube.client import KubeClient
from sparewheel.kube.install import apply_crds
from sparewheel.kube.port import NODE, NODE_HEALTH, NotFoundError

NODE_NAME = "gpu-1"
TOKEN = "bench"
SETTLE_SECONDS = 10.0
IDLE_SECONDS = 60.0


def make_host(folder: Path) -> None:
    """Eight device files, a boot id and a kernel log."""
    host = folder / "host"
    (host / "dev").mkdir(parents=True)
    (host / "proc/sys/kernel/random").mkdir(parents=True)
    (host / "proc/sys/kernel/random/boot_id").write_text("boot")
    (host / "kmsg").touch()
    for index in range(8):
        (host / "dev" / f"nvidia{index}").touch()


async def prepare(kubeconfig: Path) -> None:
    async with KubeClient(from_file(kubeconfig)) as kube:
        await apply_crds(kube, crd_manifests())
        await kube.create(NODE, {"metadata": {"name": NODE_NAME}})


async def reported(kubeconfig: Path) -> bool:
    async with KubeClient(from_file(kubeconfig)) as kube:
        try:
            health = await kube.get(NODE_HEALTH, NODE_NAME)
        except NotFoundError:
            return False
    return health.get("status", {}).get("gpus", {}).get("seen") is not None


def measure() -> dict[str, float]:
    import asyncio

    figures = measure_lines()
    with tempfile.TemporaryDirectory(prefix="sparewheel-bench-") as name:
        folder = Path(name)
        make_host(folder)
        (folder / "token").write_text(TOKEN)
        tokens = folder / "tokens.csv"
        tokens.write_text(f"{TOKEN},agent,1,system:masters\n")
        with running_api_server(folder, [f"--token-auth-file={tokens}"]) as kubeconfig:
            asyncio.run(prepare(kubeconfig))
            port = from_file(kubeconfig).server.rpartition(":")[2]
            env = {**os.environ, "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
            process = subprocess.Popen([sys.executable, "-m", "bench.agent_process", name, NODE_NAME], env=env)
            try:
                await_("the agent reports", 30, lambda: asyncio.run(reported(kubeconfig)), 0.5)
                time.sleep(SETTLE_SECONDS)
                note(f"the idle agent for {IDLE_SECONDS:.0f} s")
                before, since = cpu_seconds(process.pid), time.monotonic()
                time.sleep(IDLE_SECONDS)
                used = cpu_seconds(process.pid) - before
                figures["agent_idle_cpu_percent"] = 100 * used / (time.monotonic() - since)
                figures["agent_rss_mb"] = memory_mb(process.pid)
            finally:
                process.terminate()
                process.wait(timeout=10)
    return figures


def main() -> int:
    figures = measure()
    keep(figures)
    show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
