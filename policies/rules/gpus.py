"""GPUs as Slurm and Kubernetes count them: the settings are complete, and say the same number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from policies.model import Found, Given, Level, Resource, Rule
from policies.values import containers, fields, items, number, of_kind, pod_specs, slurm_conf, spec, text
from sparewheel.api.names import AGENT_APP_NAME, GPU_RESOURCE, LABEL_POOL

_AUTODETECT: Final = frozenset(("nvidia", "nvml", "rsmi", "nrt", "oneapi"))


def slurm_knows_gpus(resources: Sequence[Resource], given: Given) -> Iterator[Found]:
    """Slurm counts GPUs: GresTypes and AccountingStorageTRES name them, gres.conf says how to find them."""
    texts = [
        str(fields(one.inputs, "data")["gres.conf"])
        for one in of_kind(resources, "ConfigMap")
        if "gres.conf" in fields(one.inputs, "data")
    ]
    for controller in of_kind(resources, "Controller"):
        if not text(spec(controller), "extraConf"):
            continue
        conf = slurm_conf(controller)
        if "gpu" not in conf.get("grestypes", "").split(","):
            yield controller, "GresTypes lacks gpu: no job can ask for one"
        if "gres/gpu" not in conf.get("accountingstoragetres", "").split(","):
            yield controller, "AccountingStorageTRES lacks gres/gpu: nobody's GPU hours are counted"
        if given.whole and not texts:
            yield controller, "no ConfigMap holds gres.conf: slurmd finds no GPU"
    for content in texts:
        finds = re.search(r"^\s*AutoDetect=(\w+)", content, re.MULTILINE)
        by_file = re.search(r"^\s*(NodeName=\S+\s+)?Name=gpu\b.*\bFile=\S+", content, re.MULTILINE)
        if not by_file and (finds is None or finds[1].lower() not in _AUTODETECT):
            yield None, "gres.conf neither detects GPUs (AutoDetect) nor names their files (Name=gpu File=...)"


def gpu_counts_agree(resources: Sequence[Resource], _given: Given) -> Iterator[Found]:
    """Pool, worker's limit, Slurm's Gres and the agent say the same number of GPUs."""
    pools = {pool.name: number(spec(pool), "gpusPerNode") for pool in of_kind(resources, "GpuPool")}
    for workers in of_kind(resources, "NodeSet"):
        wanted = pools.get(workers.name)
        limit = number(spec(workers), "slurmd", "resources", "limits", GPU_RESOURCE)
        said = re.search(r"\bGres=gpu:(?:\w+:)?(\d+)", text(spec(workers), "extraConf"))
        if limit is None:
            yield workers, f"NodeSet {workers.name}: has no limit of {GPU_RESOURCE}, so it gets no GPU"
        elif wanted is not None and limit != wanted:
            yield workers, f"NodeSet {workers.name}: limit {limit:g} GPUs, the pool says {wanted:g}"
        if said is None:
            yield workers, f"NodeSet {workers.name}: extraConf lacks Gres=gpu:N, so Slurm gives no GPU to jobs"
        elif limit is not None and float(said[1]) != limit:
            yield workers, f"NodeSet {workers.name}: Gres says {said[1]} GPUs, its limit {limit:g}"
    for agents in of_kind(resources, "DaemonSet"):
        labels = fields(spec(agents), "template", "metadata", "labels")
        wanted = pools.get(str(labels.get(LABEL_POOL)))
        if labels.get("app.kubernetes.io/name") == AGENT_APP_NAME and wanted is not None:
            expected = _expected(agents)
            if expected != wanted:
                shown = "none" if expected is None else f"{expected:g}"
                yield agents, f"{agents.label}: looks for {shown} GPUs, the pool says {wanted:g}"


def _expected(agents: Resource) -> float | None:
    for _, pod in pod_specs(agents):
        for one in containers(pod):
            for word in [*items(one, "command"), *items(one, "args")]:
                if str(word).startswith("--expected-gpus="):
                    return number(str(word).partition("=")[2])
    return None


def workers_have_limits(resource: Resource, _given: Given) -> Iterator[str]:
    """A worker has limits of CPU and memory, or one job can starve its host's daemons."""
    if resource.kind != "NodeSet":
        return
    limits = fields(spec(resource), "slurmd", "resources", "limits")
    missing = [name for name in ("cpu", "memory") if name not in limits]
    if missing:
        yield f"NodeSet {resource.name}: has no limit of {' and '.join(missing)}; set the pool's cpus and memory"


RULES: Final = (
    Rule("slurm-knows-gpus", Level.MANDATORY, "slurm.conf(5), gres.conf(5)", whole=slurm_knows_gpus),
    Rule("gpu-counts-agree", Level.MANDATORY, "gres.conf(5); Kubernetes: device plugins", whole=gpu_counts_agree),
    Rule("workers-have-limits", Level.ADVISORY, "Kubernetes: resource management", check=workers_have_limits),
)
