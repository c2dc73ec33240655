"""What the stand-in for Slinky's operator builds of a worker."""

from __future__ import annotations

import pytest

from lab.standins.slinky.builders import worker
from tests.unit.standins import slinky_objects as given


def test_worker_pod() -> None:
    pod = worker.pod(given.nodeset(), given.controller(), 0, {})
    meta, spec = pod["metadata"], pod["spec"]
    assert (meta["name"], meta["generateName"]) == ("gpu-0", "gpu-")
    assert meta["ownerReferences"][0]["controller"] is True
    labels = meta["labels"]
    revision = labels.pop("controller.kubernetes.io/hash")
    assert len(revision) == 10
    assert labels == {
        "app.kubernetes.io/component": "worker",
        "app.kubernetes.io/instance": "gpu",
        "app.kubernetes.io/name": "slurmd",
        "nodeset.slinky.slurm.net/pod-hostname": "gpu-0",
        "nodeset.slinky.slurm.net/pod-index": "0",
        "nodeset.slinky.slurm.net/pod-name": "gpu-0",
        "nodeset.slinky.slurm.net/scaling-mode": "StatefulSet",
        "slinky.slurm.net/cluster": "slurm",
    }
    assert meta["annotations"]["topology.slinky.slurm.net/spec"] == ""
    assert (spec["hostname"], spec["subdomain"]) == ("gpu-0", "slurm-workers-slurm")
    assert spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"][
        "matchExpressions"
    ] == [{"key": "app.kubernetes.io/name", "operator": "In", "values": ["slurmd"]}]
    assert spec["tolerations"][0]["key"] == "nodeset.slinky.slurm.net/worker"
    (main,) = spec["containers"]
    assert main["args"] == [
        "-Z",
        "--conf-server",
        "slurm-controller.slurm:6817",
        "--conf",
        "'Features=gpu Gres=gpu:8 Topology='\"$SLINKY_TOPOLOGY\"''",
    ]
    env = {one["name"]: one.get("value") for one in main["env"]}
    assert (env["POD_CPUS"], env["POD_MEMORY"]) == ("1", "1024")
    assert main["lifecycle"]["preStop"]["exec"]["command"][2].startswith("scontrol update nodename=$(hostname)")
    assert main["securityContext"]["privileged"] is True


def test_worker_identity_follows_ordinal_padding_and_hostname() -> None:
    padded = worker.pod(given.nodeset(ordinalPadding=3), given.controller(), 7, {})
    assert padded["metadata"]["name"] == padded["spec"]["hostname"] == "gpu-007"
    named = given.nodeset(template={"spec": {"hostname": "h100-"}})
    made = worker.pod(named, given.controller(), 2, {})
    assert (made["metadata"]["name"], made["spec"]["hostname"]) == ("gpu-2", "h100-2")
    assert "Features=h100 " in worker.conf_argument(named)


def test_revision_changes_with_the_pod_and_not_with_the_count() -> None:
    first = worker.revision(given.nodeset())
    assert worker.revision(given.nodeset(replicas=5)) == first
    assert worker.revision(given.nodeset(slurmd={"image": "other"})) != first


def test_worker_with_ssh() -> None:
    spec = {"enabled": True, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    made = worker.pod(given.nodeset(ssh=spec), given.controller(), 0, {})
    assert {"ssh-config", "sssd-conf"} <= {one["name"] for one in made["spec"]["volumes"]}
    assert [one["name"] for one in made["spec"]["containers"][0]["ports"]] == ["slurmd", "ssh"]


def test_worker_extra_conf_without_equals_is_refused() -> None:
    with pytest.raises(ValueError, match="Key=Value"):
        worker.conf_argument(given.nodeset(extraConf="Gres"))


def test_cluster_wide_worker_objects_are_owned_by_every_nodeset() -> None:
    service = worker.worker_service("slurm", "slurm", [given.nodeset()])
    assert (service["metadata"]["name"], service["spec"]["clusterIP"]) == ("slurm-workers-slurm", "None")
    assert "controller" not in service["metadata"]["ownerReferences"][0]
    budget = worker.worker_pdb("slurm", "slurm", [given.nodeset()])
    assert budget["spec"] == {
        "maxUnavailable": 0,
        "selector": {
            "matchLabels": {"nodeset.slinky.slurm.net/pod-protect": "true", "slinky.slurm.net/cluster": "slurm"}
        },
    }
