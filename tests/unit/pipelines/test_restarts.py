"""What an up restarts, from what the engine says would change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipelines import summary
from pipelines.restarts import restarts
from pipelines.steps import Change, read_look

SLINKY = "kubernetes:slinky.slurm.net/v1beta1"


def update(resource: str, *paths: str) -> Change:
    return Change("update", resource, ("spec",), paths)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (update(f"{SLINKY}:Controller controller-slurm", "spec.slurmctld.image"), "slurmctld restarts: under a minute"),
        (update(f"{SLINKY}:Controller controller-slurm", "spec.extraConf"), "running jobs go on"),
        (update("kubernetes:core/v1:ConfigMap slurm-extra", "data.gres.conf"), "restarts with its new files"),
        (update(f"{SLINKY}:NodeSet nodeset-h100", "spec.slurmd.image"), "the workers of pool h100 are replaced"),
        (update(f"{SLINKY}:NodeSet nodeset-h100", "spec.replicas"), "pool h100 changes its size"),
        (update(f"{SLINKY}:LoginSet loginset-login", "spec.login.image"), "open ssh sessions end"),
        (update(f"{SLINKY}:Accounting accounting-slurm", "spec.slurmdbd.image"), "sacct fails meanwhile"),
        (update("kubernetes:apps/v1:DaemonSet agent-h100", "spec.template.spec.containers.0.image"), "agents restart"),
        (update("kubernetes:apps/v1:Deployment sparewheel-controller", "spec.template.spec.x"), "the next leader"),
        (update("kubernetes:apps/v1:Deployment operator:slinky/slurm-operator", "spec.template.x"), "drains and new"),
        (update("kubernetes:helm.sh/v4:Chart operator-crds", "version"), "Slinky's operator restarts"),
        (update("command:remote:Command cluster-control-plane", "stdin"), "by `kubeadm upgrade`"),
        (Change("replace", "pulumi-python:dynamic/sparewheel:GeneratedSecret slurm-key"), "every running job ends"),
        (Change("delete", f"{SLINKY}:NodeSet nodeset-h100"), "its running jobs end"),
        (Change("replace", "pulumi:providers:kubernetes cluster"), "another cluster"),
    ],
    ids=lambda value: value.resource if isinstance(value, Change) else "",
)
def test_it_says_what_restarts(change: Change, says: str) -> None:
    (said,) = restarts([change])
    assert says in said


@pytest.mark.parametrize(
    "change",
    [
        update(f"{SLINKY}:NodeSet nodeset-h100", "spec.partition.config"),
        update(f"{SLINKY}:NodeSet nodeset-h100", "spec.slurmdX.image"),
        update("kubernetes:sparewheel.dev/v1alpha1:GpuPool gpupool-h100", "spec.spares"),
        update("kubernetes:core/v1:ConfigMap slurm-users", "data.passwd"),
        Change("create", f"{SLINKY}:NodeSet nodeset-h200"),
    ],
    ids=lambda change: change.resource,
)
def test_what_nobody_notices_is_not_said(change: Change) -> None:
    assert restarts([change]) == []


def test_what_is_lost_comes_first_and_nothing_twice() -> None:
    changes = [
        update(f"{SLINKY}:LoginSet loginset-login", "spec.login.image"),
        Change("create-replacement", "kubernetes:core/v1:PersistentVolumeClaim slurm-home"),
        Change("delete-replaced", "kubernetes:core/v1:PersistentVolumeClaim slurm-home"),
    ]
    said = restarts(changes)
    assert len(said) == 2
    assert said[0].startswith("slurm-home is made anew")


def test_a_control_plane_that_goes_takes_its_cluster_along() -> None:
    (said,) = restarts([Change("delete", "command:remote:Command cluster-control-plane")])
    assert "everything in it is gone" in said


def test_a_release_of_slurm_from_the_engines_own_words_to_the_comment() -> None:
    def state(image: str) -> dict[str, Any]:
        return {"inputs": {"spec": {"slurmd": {"image": image}, "replicas": 8}}}

    urn = f"urn:pulumi:prod::sparewheel::sparewheel:pool:GpuNodePool${SLINKY}:NodeSet::nodeset-h100"
    step = {"op": "update", "urn": urn, "diffReasons": ["spec"], "oldState": state("a:1"), "newState": state("a:2")}
    look = read_look(0, json.dumps({"steps": [step], "changeSummary": {"same": 70}}), "")
    text = summary.preview("prod", look, "", [])
    assert "**What restarts**\n\n- the workers of pool h100 are replaced, a quarter of them at a time" in text
    assert "a:2" not in text, "names only, never values"
