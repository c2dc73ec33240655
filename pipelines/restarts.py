"""What an up restarts, in words: which daemon, for how long, and what becomes of running jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipelines.steps import Change

REPLACING: Final = frozenset(("replace", "create-replacement", "delete-replaced"))
POD: Final = ("spec.template",)
OPERATOR: Final = "Slinky's operator restarts: workers and jobs go on, drains and new workers wait for it"


@dataclass(frozen=True)
class Restart:
    """Said where a change of a resource whose type ends so, and whose name begins so, touches one of these inputs.

    ``inputs``: the beginnings of their paths. ``{name}``: the resource's name after ``name``.
    """

    type: str
    inputs: tuple[str, ...]
    sentence: str
    name: str = ""


RESTARTS: Final = (
    Restart(
        ":Controller",
        ("spec.slurmctld", "spec.logfile", "spec.reconfigure", "spec.template", "spec.extraConf"),
        "slurmctld restarts: under a minute in which sbatch and squeue fail and nothing starts; running jobs go on",
        "controller-",
    ),
    Restart(
        ":ConfigMap",
        ("data",),
        "slurmctld restarts with its new files: under a minute in which nothing starts; running jobs go on",
        "slurm-extra",
    ),
    Restart(
        ":NodeSet",
        ("spec.slurmd", "spec.logfile", "spec.template", "spec.extraConf", "spec.ssh"),
        "the workers of pool {name} are replaced, a quarter of them at a time; each is drained first, so its jobs end "
        "by themselves and the pool is smaller until the last has",
        "nodeset-",
    ),
    Restart(
        ":NodeSet",
        ("spec.replicas",),
        "pool {name} changes its size; where it gets smaller, nodes are drained before they leave",
        "nodeset-",
    ),
    Restart(
        ":LoginSet",
        ("spec.login", "spec.initconf", "spec.template", "spec.extraSshdConfig", "spec.sssdConfRef"),
        "login nodes restart: open ssh sessions end, jobs go on",
        "loginset-",
    ),
    Restart(
        ":RestApi",
        ("spec.slurmrestd", "spec.template"),
        "slurmrestd restarts: healings wait for it, a few seconds",
        "restapi-",
    ),
    Restart(
        ":Accounting",
        ("spec.slurmdbd", "spec.storageConfig", "spec.template", "spec.extraConf"),
        "slurmdbd restarts: sacct fails meanwhile, slurmctld keeps what happened and sends it after",
        "accounting-",
    ),
    Restart(":StatefulSet", POD, "the accounting database restarts: sacct fails meanwhile", "mariadb"),
    Restart(
        ":Deployment",
        POD,
        "the controllers restart one after the other: a healing goes on with the next leader, within half a minute",
        "sparewheel-controller",
    ),
    Restart(
        ":DaemonSet",
        POD,
        "the agents restart node by node: what a kernel logs meanwhile is read when its agent is back",
        "agent-",
    ),
    Restart(":Chart", ("version", "chart", "values"), OPERATOR, "operator"),
    Restart(":Deployment", POD, OPERATOR, "operator"),
    Restart(
        "remote:Command",
        ("stdin", "update", "create"),
        "the control plane's host is not upgraded by this: only the kubeconfig is read again; a new Kubernetes is put "
        "on by `kubeadm upgrade`, node by node",
    ),
)

ANEW: Final = (
    (":Secret", "slurm-auth", "Slurm's keys are made anew: **every running job ends**"),
    ("GeneratedSecret", "slurm-key", "Slurm's key is made anew: **every running job ends**"),
    (
        ":PersistentVolumeClaim",
        "",
        "{name} is made anew: **what is on it is gone**, unless its volume is kept (Retain)",
    ),
    (":Controller", "controller-", "slurmctld's object is made anew: every job that waits or runs may be lost"),
    (":NodeSet", "nodeset-", "pool {name} gets other workers: **its running jobs end**"),
    ("CrusoeNodePool", "", "node pool {name} gets other VMs: **its running jobs end**"),
    ("remote:Command", "", "the control plane is reset by kubeadm: **the cluster and everything in it is gone**"),
    ("CrusoeCluster", "", "cluster {name} is made anew, with everything in it"),
    ("providers:kubernetes", "", "another cluster: everything in the old one is left there and made anew"),
    (":Namespace", "", "namespace {name} is made anew, with everything in it"),
)
"""By type and name: what it means that the old one goes and a new one comes. Deleting alone says the same."""


def restarts(changes: Sequence[Change]) -> list[str]:
    """One sentence for each thing that restarts or is lost, the worst first; none for what nobody notices."""
    lost = [sentence for change in changes for sentence in _anew(change)]
    said = [sentence for change in changes for sentence in _restarted(change)]
    return list(dict.fromkeys([*lost, *said]))


def _anew(change: Change) -> Iterator[str]:
    if change.operation not in REPLACING | {"delete"}:
        return
    kind, _, name = change.resource.partition(" ")
    for type_, begins, sentence in ANEW:
        if kind.endswith(type_) and name.startswith(begins):
            yield sentence.replace("{name}", name.removeprefix(begins) or name)


def _restarted(change: Change) -> Iterator[str]:
    if change.operation != "update":
        return
    kind, _, name = change.resource.partition(" ")
    for rule in RESTARTS:
        if kind.endswith(rule.type) and name.startswith(rule.name) and _touches(change.paths, rule.inputs):
            yield rule.sentence.replace("{name}", name.removeprefix(rule.name))


def _touches(paths: Sequence[str], inputs: Sequence[str]) -> bool:
    return any(path == one or path.startswith((f"{one}.", f"{one}[")) for path in paths for one in inputs)
