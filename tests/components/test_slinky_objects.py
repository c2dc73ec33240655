"""What the stack asks of Slinky's real operator: only fields that it has, by its webhooks' rules, and the labels that
it was seen to give (recorded from the real operator on a real cluster; the charts can't be pulled in a test)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from lab.standins.slinky.schema.crds import FIELDS, Field, read_fields
from tests.components.conftest import MANIFESTS, Registered, Run, Stack
from tests.components.test_metal_stack import SECRETS as METAL_SECRETS
from tests.components.test_policies import config_of
from tests.components.test_production_stack import SECRETS, filled_in

TABLE = read_fields(FIELDS.read_text("utf-8"))
KINDS = ("Controller", "NodeSet", "LoginSet", "RestApi", "Accounting", "Token")
RENDERED = {"slurmctld": ("slurm", 6817), "slurmrestd": ("slurm", 6820), "login": ("login", 22)}
"""app.kubernetes.io/name of a daemon's pods and Service: app.kubernetes.io/instance and port."""
OF_THE_OPERATOR = ("slurm.conf", "slurmdbd.conf")
CACHE: dict[str, Stack] = {}


@pytest.fixture(params=["production", "crusoe"])
def stack(request: pytest.FixtureRequest, run_stack: Run) -> Stack:
    """An environment that uses the charts; the program runs once for all tests of this file."""
    name: str = request.param
    if name not in CACHE:
        config = filled_in() if name == "production" else config_of(name)
        secrets = SECRETS if name == "production" else {**METAL_SECRETS, "crusoe-key": "CANARY-c"}
        CACHE[name] = run_stack(config, secrets)
    return CACHE[name]


def slinky(stack: Stack) -> Iterator[tuple[str, Registered]]:
    for kind in KINDS:
        found = [one for one in stack.of_type(f":{kind}") if "slinky.slurm.net/v1beta1" in one.type]
        assert found, kind
        yield from ((kind, one) for one in found)


def unknown(kind: str, body: Any, path: str = "spec") -> Iterator[str]:
    """Paths that are not in the table; below an open field everything is a Kubernetes type's own."""
    fields = {one.path: one for one in TABLE if one.kind == kind}
    if path != "spec":
        known = fields.get(path)
        if known is None:
            yield path
            return
        if known.constraints.startswith("open") or path.endswith((".labels", ".annotations")):
            return
    if isinstance(body, dict):
        for key, value in body.items():  # pyright: ignore[reportUnknownVariableType]
            yield from unknown(kind, value, f"{path}.{key}")
    elif isinstance(body, list) and body and isinstance(body[0], dict):
        for item in body:  # pyright: ignore[reportUnknownVariableType]
            for key, value in item.items():  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
                yield from unknown(kind, value, f"{path}[].{key}")


def required(kind: str, body: Any) -> Iterator[str]:
    """Fields that must be there where what holds them is."""
    for field in TABLE:
        if field.kind == kind and field.required and field.path.startswith("spec."):
            *above, name = field.path.removeprefix("spec.").split(".")
            held = body
            for step in above:
                held = held.get(step) if isinstance(held, dict) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
            if isinstance(held, dict) and name not in held:
                yield field.path


def test_only_fields_that_the_operator_has(stack: Stack) -> None:
    for kind, one in slinky(stack):
        assert list(unknown(kind, one.inputs["spec"])) == [], one.name
        assert list(required(kind, one.inputs["spec"])) == [], one.name


def test_the_check_itself_finds_what_is_wrong() -> None:
    assert Field("NodeSet", "spec.replicas", "integer", required=False, constraints="default=1 format=int32") in TABLE
    body = {"replicas": 1, "slurmd": {"image": "a"}, "taintKubeNodes": True, "ssh": {"enabled": True}}
    assert list(unknown("NodeSet", body)) == ["spec.taintKubeNodes"]
    assert set(required("NodeSet", body)) == {"spec.controllerRef", "spec.ssh.sssdConfRef"}


def test_its_webhooks_rules_are_kept(stack: Stack) -> None:
    for kind, one in slinky(stack):
        spec = one.inputs["spec"]
        lines = str(spec.get("extraConf", "")).splitlines() if kind != "NodeSet" else spec["extraConf"].split(" ")
        assert all(re.match(r"[A-Za-z]+=", line) for line in lines if line), one.name
        if kind == "Controller":
            assert len(spec["clusterName"]) <= 40
            assert spec["persistence"]["existingClaim"]
            files = [stack.one(":ConfigMap", ref["name"]).inputs["data"] for ref in spec["configFileRefs"]]
            assert not [name for data in files for name in data if name in OF_THE_OPERATOR]


def test_every_key_that_is_named_is_made_by_the_stack(stack: Stack) -> None:
    for kind, one in slinky(stack):
        refs = [value for key, value in walk(one.inputs["spec"]) if key.endswith("KeyRef") or key == "sssdConfRef"]
        assert refs or kind in ("NodeSet", "RestApi"), one.name
        for ref in refs:
            secret = stack.one(":Secret", ref["name"]).inputs
            assert ref["key"] in {**secret.get("data", {}), **secret.get("stringData", {})}


def walk(body: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(body, dict):
        for key, value in body.items():  # pyright: ignore[reportUnknownVariableType]
            yield str(key), value  # pyright: ignore[reportUnknownArgumentType]
            yield from walk(value)


def test_services_of_ours_select_the_labels_that_the_operator_gives(stack: Stack) -> None:
    for daemon, (instance, port) in RENDERED.items():
        (service,) = [
            one for one in stack.of_type(":Service")
            if one.inputs["spec"].get("selector", {}).get("app.kubernetes.io/name") == daemon
        ]  # fmt: skip
        spec = service.inputs["spec"]
        assert spec["selector"] == {"app.kubernetes.io/name": daemon, "app.kubernetes.io/instance": instance}
        assert [one["port"] for one in spec["ports"]] == [port]


def test_charts_by_address_and_version_crds_first(stack: Stack) -> None:
    crds, operator = stack.one("Chart", "operator-crds"), stack.one("Chart", "operator")
    for chart, name in ((crds, "slurm-operator-crds"), (operator, "slurm-operator")):
        assert chart.inputs["chart"] == f"oci://ghcr.io/slinkyproject/charts/{name}"
        assert chart.inputs["version"] == "1.2.1"
        assert chart.inputs["namespace"] == "slinky"
    assert crds.urn in stack.before(operator)
    assert not stack.of_type("ConfigGroup"), MANIFESTS
