"""``python -m bench.preview``: the first preview of a stack with 2,000 GPU nodes, by the real engine, no cluster."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from bench.results import keep, show
from lab.toolchain.paths import REPOSITORY
from pipelines.engine import Engine

POOLS = 2
NODES_OF_A_POOL = 1000
PROGRAM = f"""
import runpy
import sys

sys.path.insert(0, {str(REPOSITORY)!r})
runpy.run_path({str(REPOSITORY / "__main__.py")!r})
"""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


def config() -> dict[str, Any]:
    """The example of production, filled in for a large fleet; a command knows the cluster, and no secret is needed."""
    text = (REPOSITORY / "stacks" / "Pulumi.production.yaml").read_text("utf-8")
    found: dict[str, Any] = yaml.safe_load(text)["config"]
    found["sparewheel:cluster"] = {"kind": "command", "command": "print-kubeconfig"}
    manifests = REPOSITORY / "lab" / "standins" / "slinky" / "manifests"
    found["sparewheel:operator"] = {"kind": "manifests", "path": str(manifests)}
    found["sparewheel:images"] = {name: f"registry.example/{name}:1" for name in found["sparewheel:images"]}
    for name, disk in found["sparewheel:storage"].items():
        disk["storage_class"] = f"class-of-{name}"
    found["sparewheel:users"][0]["ssh_keys"] = [KEY]
    found["sparewheel:login"] = {"service": {"type": "ClusterIP"}}
    found["sparewheel:remediation"] = {}
    pool: dict[str, Any] = found["sparewheel:pools"][0]
    pool.update(size=NODES_OF_A_POOL, spares=20, cpus="160", memory="1800Gi", partition={})
    found["sparewheel:pools"] = [
        {**pool, "name": f"gpu-{number}", "backend": {"kind": "warm", "node_selector": {"fleet": str(number)}}}
        for number in range(POOLS)
    ]
    return found


def measure(folder: Path) -> dict[str, float]:
    """Seconds and resources of one preview; a preview that fails is an error, never a figure."""
    (folder / "stacks").mkdir()
    (folder / "backend").mkdir()
    (folder / "Pulumi.yaml").write_text((REPOSITORY / "Pulumi.yaml").read_text("utf-8"), "utf-8")
    (folder / "__main__.py").write_text(PROGRAM, "utf-8")
    env = {
        **os.environ,
        "PULUMI_BACKEND_URL": f"file://{folder / 'backend'}?metadata=skip",
        "PULUMI_CONFIG_PASSPHRASE": "only for this measurement",
        "PULUMI_HOME": str(folder / "home"),
    }
    engine = Engine(folder, "bench", env)
    engine.make()
    path = folder / "stacks" / "Pulumi.bench.yaml"
    made: dict[str, Any] = yaml.safe_load(path.read_text("utf-8")) or {}
    path.write_text(json.dumps({**made, "config": config()}), "utf-8")  # JSON is YAML
    started = time.monotonic()
    look = engine.look("preview")
    seconds = time.monotonic() - started
    if look.error:
        sys.exit(f"The preview failed, so there is no figure: {look.error}")
    nodes = POOLS * NODES_OF_A_POOL
    return {f"preview_{nodes}_nodes_seconds": seconds, f"preview_{nodes}_nodes_resources": float(len(look.changes))}


def main() -> None:
    """Measure once; the stack is made in a folder that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder))
    show(figures)
    keep(figures)


if __name__ == "__main__":
    main()
