"""The example environment on bare metal: made by kubeadm on a host of ours, and no key or token in clear anywhere."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pulumi
import pytest

from policies.judge import NAMES
from policies.settings import FILE, load
from sparewheel.api.gpu_pool import GpuPoolSpec, MachinesBackend
from stacks.config import ConfigError, parse
from stacks.placeholders import to_fill_in
from tests.components.conftest import KEY, KUBECONFIG, MANIFESTS, Run, Stack
from tests.components.test_policies import config_of, findings, registered
from tests.support.canaries import leaks

SECRETS = {
    "control-plane-ssh": "CANARY-control-plane",
    "machines-ssh": "CANARY-machines",
    "power-ssh": "CANARY-power",
    "oncall-url": "CANARY-url",
}
DAEMON = """
apiVersion: v1
kind: ConfigMap
metadata: {name: pods-network, namespace: kube-system}
"""


CACHE: list[Stack] = []


@pytest.fixture
def stack(run_stack: Run, tmp_path: Path) -> Stack:
    """The example filled in; the program runs once for all tests that only look at it."""
    if not CACHE:
        (tmp_path / "network.yaml").write_text(DAEMON)
        CACHE.append(run_stack(filled_in(str(tmp_path)), SECRETS))
    return CACHE[0]


@pytest.fixture
def network(tmp_path: Path) -> str:
    (tmp_path / "network.yaml").write_text(DAEMON)
    return str(tmp_path)


def filled_in(network: str) -> dict[str, Any]:
    """The example with every placeholder filled in, as a user would."""
    raw = config_of("metal")
    image = "registry.example/{}@sha256:" + "0123456789abcdef" * 4
    raw["images"] = {name: image.format(name) for name in raw["images"]}
    raw["users"][0]["ssh_keys"] = [KEY]
    raw["login"]["service"]["source_ranges"] = ["198.51.100.0/24"]
    raw["cluster"].update(kubernetes_version="1.36.3", network=network)
    raw["cluster"]["control_plane"]["ssh"].update(address="192.0.2.10", host_key=KEY)
    pool = raw["pools"][0]
    pool.update(cpus="160", memory="1800Gi")
    for number, machine in enumerate(pool["backend"]["machines"]):
        machine["ssh"].update(address=f"192.0.2.{20 + number}", host_key=KEY)
    pool["backend"]["power"]["ssh"].update(address="192.0.2.9", host_key=KEY)
    return raw


def test_one_error_names_all_that_is_left_to_fill_in() -> None:
    with pytest.raises(ConfigError, match="still to be filled in") as caught:
        parse(config_of("metal"))
    for path in ("cluster.kubernetes_version", "cluster.control_plane.ssh.host_key", "cluster.network"):
        assert path in str(caught.value)


def test_filled_in_it_is_right_and_asks_for_just_the_secrets_that_it_names(network: str) -> None:
    assert to_fill_in(filled_in(network)) == []
    assert {name for _, name in parse(filled_in(network)).secret_names()} == set(SECRETS)


def test_the_control_plane_is_made_over_ssh_with_a_known_host_key(stack: Stack) -> None:
    made = stack.one("command:remote:Command")
    connection = made.inputs["connection"]
    assert (connection["host"], connection["hostKey"]) == ("192.0.2.10", KEY)
    assert (connection["dialErrorLimit"], connection["perDialTimeout"]) == (3, 10)
    assert made.inputs["addPreviousOutputInEnv"] is False
    assert made.inputs["logging"] == "none"
    assert {"stdout", "stderr"} <= set(made.secret_outputs)
    assert made.protect
    assert "connection" in made.secret_inputs
    for mode, verb in (("create", "init"), ("update", "again"), ("delete", "reset")):
        assert f" control_plane {verb} 600 1.36.3" in made.inputs[mode]
    assert "kubeadm.k8s.io/v1beta4" in made.inputs["stdin"]


def test_everything_else_comes_after_the_control_plane_and_the_network(stack: Stack) -> None:
    provider = stack.one("pulumi:providers:kubernetes")
    assert provider.inputs["kubeconfig"] == KUBECONFIG
    before = stack.before(stack.one(":PoolCapacity"))
    assert stack.one("command:remote:Command").urn in before
    assert any(one.urn in before for one in stack.of_type("yaml/v2:ConfigGroup") if one.name == "cluster-network")


def test_the_machines_join_by_kubeadm_and_the_controller_makes_nothing_but_tokens(stack: Stack) -> None:
    spec = GpuPoolSpec.model_validate(stack.one(":GpuPool").inputs["spec"])
    assert isinstance(spec.backend, MachinesBackend)
    assert spec.backend.kubeadm is not None
    role = stack.one(":Role", "sparewheel-controller-kube-system")
    assert role.inputs["rules"] == [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}]
    policy = stack.one("ValidatingAdmissionPolicy", "sparewheel-join-token")
    assert policy.urn in stack.before(stack.one(":Deployment", "sparewheel-controller"))


def test_without_kubeadm_the_controller_has_no_right_to_make_a_secret(run_stack: Run, raw: dict[str, Any]) -> None:
    stack = run_stack(raw)
    names = {one.inputs["metadata"]["namespace"] for one in stack.of_type(":Role")}
    assert not names & {"kube-system", "kube-public"}


def test_no_secret_is_registered_in_clear(stack: Stack) -> None:
    for resource in stack.resources:
        text = json.dumps({k: v for k, v in resource.inputs.items() if k not in resource.secret_inputs})
        assert leaks({f"{resource.type} {resource.name}": text}) == []


def test_filled_in_it_keeps_every_rule(run_stack: Run, network: str) -> None:
    """Charts are unpacked by the engine alone, so the operator comes from manifests here."""
    config = {**filled_in(network), "operator": {"kind": "manifests", "path": str(MANIFESTS)}}
    assert findings(registered(run_stack, config, SECRETS), load(FILE, NAMES).of("metal")) == []


@pytest.mark.parametrize("field", ["name", "address"])
def test_a_control_plane_in_a_pool_is_refused(run_stack: Run, network: str, field: str) -> None:
    raw = copy.deepcopy(filled_in(network))
    machine = raw["pools"][0]["backend"]["machines"][1]
    if field == "name":
        machine["name"] = "cp-1"
    else:
        machine["ssh"]["address"] = "192.0.2.10"
    with pytest.raises(pulumi.RunError, match="is the control plane's host cp-1"):
        run_stack(raw, SECRETS)


def test_a_network_that_is_no_folder_is_refused(run_stack: Run, tmp_path: Path) -> None:
    with pytest.raises(pulumi.RunError, match=r"cluster\.network: .* is no folder with \.yaml files"):
        run_stack(filled_in(str(tmp_path / "none")), SECRETS)
