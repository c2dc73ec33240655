"""PoolCapacity's provider as a plain object: what it answers without asking anybody."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from pulumi.output import Unknown
from pulumi.runtime.rpc import UNKNOWN

from components import pool_capacity
from components.kinds_served import KindsServedProvider
from components.pool_capacity import PoolCapacityProvider, incarnation_of
from stacks.crusoe import MADE_HERE


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("check and diff must not talk to anybody")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def props(**changes: Any) -> dict[str, Any]:
    """As the engine hands them over: every number is a float."""
    spec = {
        "size": 2.0,
        "spares": 1.0,
        "gpusPerNode": 8.0,
        "backend": {"kind": "warm", "nodeSelector": {"class": "h200"}},
        "nodeSetRef": {"namespace": "slurm", "name": "gpu"},
    }
    found: dict[str, Any] = {
        "__provider": "pickled",
        "kubeconfig": "text",
        "namespace": "sparewheel",
        "pool": "gpu",
        "spec": spec,
        "deadlineSeconds": 60.0,
    }
    return {**found, **changes}


def spec(**changes: Any) -> dict[str, Any]:
    return {**props()["spec"], **changes}


def test_check_makes_whole_numbers_of_floats() -> None:
    checked = PoolCapacityProvider().check({}, props())
    assert checked.failures == []
    assert repr(checked.inputs["spec"]["size"]) == "2"
    assert repr(checked.inputs["deadlineSeconds"]) == "60"
    assert checked.inputs["__provider"] == "pickled"


def test_check_passes_a_node_pool_that_is_still_to_be_made() -> None:
    access = {"keyId": "id", "keyRef": {"name": "sparewheel-credentials", "key": "crusoe-key"}}
    backend = {"kind": "crusoe", "projectId": MADE_HERE, "access": access, "nodePoolId": Unknown()}
    checked = PoolCapacityProvider().check({}, props(spec=spec(backend=backend)))
    assert checked.failures == []
    assert isinstance(checked.inputs["spec"]["backend"]["nodePoolId"], Unknown)
    (failure,) = PoolCapacityProvider().check({}, props(spec=spec(backend={**backend, "projectId": "x"}))).failures
    assert "projectId" in failure.reason


def test_check_passes_an_unknown_kubeconfig() -> None:
    """The first preview: the cluster isn't there yet."""
    assert PoolCapacityProvider().check({}, props(kubeconfig=UNKNOWN)).failures == []


@pytest.mark.parametrize("field", ["kubeconfig", "namespace", "pool", "spec", "deadlineSeconds"])
def test_check_names_what_is_missing(field: str) -> None:
    without = {key: value for key, value in props().items() if key != field}
    failures = PoolCapacityProvider().check({}, without).failures
    assert [(failure.property, failure.reason) for failure in failures] == [(field, f"{field} is missing")]


def test_check_refuses_a_wrong_spec_and_names_the_pool() -> None:
    failures = PoolCapacityProvider().check({}, props(spec=spec(graceSeconds=121))).failures
    assert failures[0].property == "spec"
    assert "pool gpu" in failures[0].reason
    assert "graceSeconds" in failures[0].reason


@pytest.mark.parametrize(("field", "value"), [("pool", "other"), ("namespace", "elsewhere")])
def test_check_refuses_another_name_with_the_next_step(field: str, value: str) -> None:
    failures = PoolCapacityProvider().check(props(), props(**{field: value})).failures
    assert failures[0].property == field
    assert "add a second pool" in failures[0].reason


def test_check_refuses_another_kind_of_machines() -> None:
    machine = {"name": "a", "ssh": {"address": "192.0.2.1", "hostKey": "k"}}
    machines = {"kind": "machines", "keyRef": {"name": "s", "key": "k"}, "machines": [machine]}
    failures = PoolCapacityProvider().check(props(), props(spec=spec(backend=machines))).failures
    assert "from warm to machines" in failures[0].reason


def diff(olds: dict[str, Any], news: dict[str, Any]) -> bool | None:
    result = PoolCapacityProvider().diff("sparewheel/gpu@a", olds, news)
    assert result.replaces == []
    return result.changes


def test_diff_finds_nothing_where_nothing_is() -> None:
    checked = PoolCapacityProvider().check({}, props()).inputs
    assert diff(props(), checked) is False


def test_diff_ignores_how_the_provider_was_pickled() -> None:
    assert diff(props(), props(__provider="pickled by another version")) is False


def test_diff_ignores_defaults_that_a_newer_model_adds() -> None:
    assert diff(props(), props(spec=spec(maxConcurrentReplacements=1.0))) is False


@pytest.mark.parametrize(
    "changes",
    [
        {"kubeconfig": "renewed"},
        {"deadlineSeconds": 61.0},
        {"spec": spec(size=3.0)},
        {"spec": spec(replace=["gpu-1"])},
    ],
)
def test_diff_sees_each_declared_field(changes: dict[str, Any]) -> None:
    assert diff(props(), props(**changes)) is True


def test_diff_survives_a_state_of_another_version() -> None:
    assert diff(props(spec={"size": 2.0, "retired": True}), props()) is True


def test_the_id_carries_the_incarnation() -> None:
    assert incarnation_of("sparewheel/gpu@0123abcd") == "0123abcd"


def test_the_state_refers_to_the_provider_by_a_frozen_path() -> None:
    """Moving the class breaks the delete of every pool that is there."""
    assert PoolCapacityProvider.__module__ == "components.pool_capacity"
    assert pool_capacity.PoolCapacityProvider.__qualname__ == "PoolCapacityProvider"
    assert KindsServedProvider.__module__ == "components.kinds_served"
