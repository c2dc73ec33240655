"""The whole program against Pulumi's mocks: what is made, in which order, and what is secret."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from components.kinds_served import digest
from tests.components.conftest import SECRETS, Run, Stack
from tests.support.canaries import leaks


def test_every_object_is_made_below_a_component(run_stack: Run, raw: dict[str, Any]) -> None:
    stack = run_stack(raw)
    components = {r.urn for r in stack.resources if not r.custom}
    orphans = [r.name for r in stack.resources if r.custom and r.parent not in components]
    assert orphans == []


def test_destroy_order(run_stack: Run, raw: dict[str, Any]) -> None:
    """PoolCapacity first; then workers, login, pool; then Slurm; then operator, controller, agents; then our kinds."""
    stack = run_stack(raw)
    waves = [
        [stack.one("PoolCapacity")],
        [stack.one(":NodeSet"), stack.one(":LoginSet")],
        [stack.one(":RestApi")],
        [stack.one(":Controller")],
        [stack.one(":Accounting", "slurm")],
        [stack.one("ConfigGroup", "operator"), stack.one(":Deployment"), stack.one(":DaemonSet")],
    ]
    for first, then in pairwise(waves):
        for early in first:
            for late in then:
                assert is_before(stack, late.urn, early.urn), f"{early.name} must be destroyed before {late.name}"
    pool = stack.one(":GpuPool")
    assert is_before(stack, pool.urn, stack.one("PoolCapacity").urn)
    crds = stack.of_type(":CustomResourceDefinition")
    assert len(crds) == 5
    for late in crds:
        for early in (stack.one(":Deployment"), stack.one(":DaemonSet"), pool, stack.one(":RemediationPolicy")):
            assert is_before(stack, late.urn, early.urn), f"{early.name} must be destroyed before {late.name}"


def is_before(stack: Stack, made_first: str, made_later: str) -> bool:
    """Is ``made_first`` among what the engine waits for, counting the children of components depended on?"""
    by_urn = {r.urn: r for r in stack.resources}
    before = stack.before(by_urn[made_later])
    current: str = made_first
    while current:
        if current in before:
            return True
        current = by_urn[current].parent if current in by_urn else ""
    return False


def test_no_secret_is_registered_in_clear(run_stack: Run, raw: dict[str, Any]) -> None:
    stack = run_stack(raw)
    for resource in stack.resources:
        open_inputs = {k: v for k, v in resource.inputs.items() if k not in resource.secret_inputs}
        assert leaks({f"{resource.type} {resource.name}": json.dumps(open_inputs)}) == []


def test_the_reverse_case_secrets_do_arrive(run_stack: Run, raw: dict[str, Any]) -> None:
    """The test above would pass as well if no secret were used at all."""
    credentials = run_stack(raw).one(":Secret", "sparewheel-credentials")
    assert credentials.inputs["stringData"] == SECRETS


def test_computed_secrets_are_marked(run_stack: Run, raw: dict[str, Any]) -> None:
    stack = run_stack(raw)
    assert all("base64" in r.secret_outputs for r in stack.of_type("GeneratedSecret"))
    assert len(stack.of_type("GeneratedSecret")) == 3
    assert "kubeconfig" in stack.one("PoolCapacity").secret_outputs
    assert "stdout" in stack.one("local:Command").secret_outputs


def test_the_provider_is_never_replaced_for_a_new_kubeconfig(run_stack: Run, raw: dict[str, Any]) -> None:
    assert run_stack(raw).one("providers:kubernetes").inputs["clusterIdentifier"] == "sparewheel/test"


def test_objects_of_our_kinds_wait_for_the_kinds_and_say_which_they_are(run_stack: Run, raw: dict[str, Any]) -> None:
    """In a preview that changes the kinds, this is not known, and nothing is judged by the old ones."""
    stack = run_stack(raw)
    marker = stack.one("KindsServed")
    assert is_before(stack, stack.of_type(":CustomResourceDefinition")[0].urn, marker.urn)
    for resource in (stack.one(":RemediationPolicy"), stack.one(":GpuPool")):
        assert resource.inputs["metadata"]["annotations"]["sparewheel.dev/kinds"] == digest()
        assert is_before(stack, marker.urn, resource.urn)


def test_a_changed_config_file_is_changed_in_place(run_stack: Run, raw: dict[str, Any]) -> None:
    """Else one line in slurm.conf is a new ConfigMap, and every pod that mounts it is made again."""
    provider = run_stack(raw).one("providers:kubernetes").inputs
    assert (provider["enableConfigMapMutable"], provider["enableSecretMutable"]) == ("true", "true")


def test_slurms_state_and_its_database_are_kept_alike(run_stack: Run, raw: dict[str, Any]) -> None:
    """One without the other has another cluster's id, and slurmctld ends itself."""
    stack = run_stack(raw)
    kept = {r.inputs["spec"]["claimRef"]["name"]: r.inputs["spec"] for r in stack.of_type(":PersistentVolume")}
    assert {"slurm-state", "slurm-database"} <= kept.keys()
    assert {spec["persistentVolumeReclaimPolicy"] for spec in kept.values()} == {"Retain"}


def test_records_outlive_a_destroy_unless_the_stack_says_otherwise(run_stack: Run, raw: dict[str, Any]) -> None:
    stack = run_stack(raw)
    assert all(r.retained for r in stack.of_type(":CustomResourceDefinition"))
    assert stack.one(":Namespace", "sparewheel").retained, "the records are in this namespace"
    assert not stack.one(":Namespace", "slurm").retained


def test_thrown_away_records(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["remediation"]["keep_records"] = False
    assert not any(r.retained for r in run_stack(raw).resources)


def test_two_thousand_nodes_are_a_few_resources(run_stack: Run, raw: dict[str, Any]) -> None:
    """Pools, not nodes, are resources; else a preview of a large fleet takes an hour."""
    small = len(run_stack(raw).resources)
    raw["pools"][0]["backend"] = {"kind": "warm", "node_selector": {"fleet": "a"}}
    raw["pools"][0]["size"] = 1000
    more = {"kind": "warm", "node_selector": {"fleet": "b"}}
    raw["pools"].append({**raw["pools"][0], "name": "more", "backend": more})
    assert len(run_stack(raw).resources) - small <= 6


def test_nothing_of_ours_may_do_everything(run_stack: Run, raw: dict[str, Any]) -> None:
    stack = run_stack(raw)
    for role in [*stack.of_type(":ClusterRole"), *stack.of_type(":Role")]:
        for rule in role.inputs["rules"]:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]], role.name
            if rule["resources"] == ["secrets"]:
                assert rule["verbs"] == ["get"], role.name
                assert rule["resourceNames"], f"{role.name} reads every secret"
