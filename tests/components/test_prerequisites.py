"""What the stack expects of its cluster, and that nothing is made before it was looked for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pulumi.output import Unknown

from components import prerequisites
from components.plainly import NotDone
from components.prerequisites import PrerequisitesProvider
from sparewheel.kube import client
from sparewheel.kube import prerequisites as looking
from sparewheel.kube.memory import MemoryKube
from tests.components.conftest import KUBECONFIG, Run
from tests.components.test_production_stack import SECRETS, filled_in
from tests.support.clocks import StillClock


def test_production_expects_what_it_uses(run_stack: Run) -> None:
    config = filled_in()
    config["pools"][0]["worker_resources"] = {"rdma/hca_shared": 1}
    stack = run_stack(config, SECRETS)
    looked = stack.one("Prerequisites")
    assert looked.inputs["storageClasses"] == ["class-of-home", "class-of-state", "class-of-database"]
    assert looked.inputs["certManager"] is True
    (nodes,) = looked.inputs["nodes"]
    assert nodes["resources"] == {"nvidia.com/gpu": 8, "rdma/hca_shared": 1}
    assert stack.one(":NodeSet").inputs["spec"]["slurmd"]["resources"]["limits"]["rdma/hca_shared"] == 1
    assert "kubeconfig" in looked.secret_inputs
    after = [one for one in stack.resources if one.type.startswith("kubernetes:") and looked.urn in stack.before(one)]
    kinds = {one.type.rpartition(":")[2] for one in after}
    assert {"Namespace", "PersistentVolumeClaim", "Chart", "Controller", "NodeSet", "Deployment"} <= kinds


def test_cert_manager_of_the_stacks_own_is_made_before_the_operator(run_stack: Run) -> None:
    config = filled_in()
    config["operator"]["cert_manager"] = {"version": "v1.19.1"}
    stack = run_stack(config, SECRETS)
    made = stack.one("helm.sh/v4:Chart", "cert-manager")
    assert made.inputs["chart"] == "oci://quay.io/jetstack/charts/cert-manager"
    assert made.inputs["values"] == {"crds": {"enabled": True}, "startupapicheck": {"enabled": False}}
    assert made.urn in stack.before(stack.one("helm.sh/v4:Chart", "operator"))
    assert stack.one("Prerequisites").inputs["certManager"] is False


def test_an_operator_without_a_webhook_needs_no_cert_manager(run_stack: Run) -> None:
    config = filled_in()
    config["operator"]["values"] = {"webhook": {"enabled": False}}
    assert run_stack(config, SECRETS).one("Prerequisites").inputs["certManager"] is False


class Connected(MemoryKube):
    """A cluster in memory that is connected to as to a real one."""

    async def __aenter__(self) -> MemoryKube:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def props(**changes: Any) -> dict[str, Any]:
    node = {"pool": "gpu", "selector": {"a": "b"}, "resources": {"nvidia.com/gpu": 8.0}}
    found = {"kubeconfig": KUBECONFIG, "storageClasses": ["fast"], "certManager": False, "nodes": [node]}
    return {**found, **changes}


def test_all_that_is_missing_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> Connected:
        return Connected(clock=StillClock())

    monkeypatch.setattr(client, "KubeClient", connect)
    with pytest.raises(NotDone) as caught:
        PrerequisitesProvider().create(props())
    head, storage, nodes = str(caught.value).splitlines()
    assert head == "the cluster lacks what the platform needs:"
    assert storage.startswith("  there is no StorageClass fast")
    assert nodes.startswith("  pool gpu: no node has the label a=b")


def test_it_looks_again_only_when_something_else_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> list[str]:
        return []

    monkeypatch.setattr(looking, "missing", nothing)
    provider = PrerequisitesProvider()
    made = provider.create(props())
    assert made.outs is not None
    assert provider.diff(made.id, made.outs, props()).changes is False
    assert provider.diff(made.id, made.outs, props(storageClasses=["other"])).changes is True
    assert set(made.outs) == set(prerequisites.SEEN)


@pytest.mark.parametrize(
    ("changes", "again"),
    [
        ({"token": "CANARY-renewed"}, False),
        ({"server": "https://192.0.2.10:6443"}, True),
        ({"certificate-authority-data": "another"}, True),
    ],
)
def test_it_looks_again_at_another_cluster_not_with_other_credentials(changes: dict[str, str], *, again: bool) -> None:
    config = json.loads(KUBECONFIG)
    config["users" if "token" in changes else "clusters"][0]["user" if "token" in changes else "cluster"].update(
        changes
    )
    assert PrerequisitesProvider().diff("", props(), props(kubeconfig=json.dumps(config))).changes is again


@pytest.mark.parametrize("kubeconfig", [Unknown(), "no kubeconfig"])
def test_a_cluster_that_is_not_known_is_looked_at(kubeconfig: object) -> None:
    assert PrerequisitesProvider().diff("", props(), props(kubeconfig=kubeconfig)).changes is True
