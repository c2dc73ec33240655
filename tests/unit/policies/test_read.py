"""What is judged is read whole, secrets stay hidden, and what can't be judged is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import CONFIG_TYPE, SECRET, UNKNOWN, Resource
from policies.read import Document, ReadError, masked, read, read_file
from tests.unit.policies import examples as e

SIGNATURE = "4dabf18193072939515e22adb298388d"
ENCRYPTED = {SIGNATURE: "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "CANARY"}
POOL = {
    "urn": "urn:pulumi:prod::sparewheel::kubernetes:sparewheel.dev/v1alpha1:GpuPool::gpupool-gpu",
    "type": "kubernetes:sparewheel.dev/v1alpha1:GpuPool",
    "inputs": {"metadata": {"name": "gpu"}, "spec": {"size": 2}, "token": ENCRYPTED},
    "protect": True,
}
ROOT = {
    "urn": "urn:pulumi:prod::sparewheel::pulumi:pulumi:Stack::sparewheel-prod",
    "type": "pulumi:pulumi:Stack",
    "outputs": {"kubeconfig": ENCRYPTED, "login": "ssh USER@h"},
}


def test_the_component_that_is_named_like_a_record_is_none() -> None:
    """Or a stack that was never up would lack a drill."""
    component = Resource("sparewheel:remediation:Remediation", "remediation", {})
    assert not Document((component,)).records
    assert Document((component, e.drill())).records


def pool_of(document: Document) -> Any:
    found = [one for one in document.resources if one.kind == "GpuPool"]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    "state",
    [
        {"version": 3, "deployment": {"resources": [ROOT, POOL, {**POOL, "delete": True}]}},
        {"version": 3, "checkpoint": {"latest": {"resources": [ROOT, POOL]}}},
    ],
)
def test_a_state(state: dict[str, Any]) -> None:
    document = read(json.dumps(state))
    assert (document.environment, document.whole, document.records) == ("prod", True, False)
    pool = pool_of(document)
    assert (pool.name, pool.protect, pool.inputs["spec"], pool.inputs["token"]) == ("gpu", True, {"size": 2}, SECRET)
    assert document.resources[0].outputs == {"kubeconfig": SECRET, "login": "ssh USER@h"}
    assert "CANARY" not in str(document)


def test_a_preview() -> None:
    unknown = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
    late = {**POOL, "inputs": {"metadata": {"name": "gpu"}, "spec": {"size": 3}, "id": unknown}}
    gone = {**POOL, "urn": "urn:pulumi:prod::sparewheel::kubernetes:sparewheel.dev/v1alpha1:GpuPool::gpupool-old"}
    steps = [
        {"op": "same", "urn": ROOT["urn"], "newState": ROOT},
        {"op": "create-replacement", "newState": POOL},
        {"op": "replace", "newState": late},
        {"op": "delete-replaced", "oldState": POOL},
        {"op": "delete", "oldState": gone},
    ]
    document = read(json.dumps({"steps": steps, "changeSummary": {"same": 1}}))
    pool = pool_of(document)
    assert (document.environment, document.whole) == ("prod", True)
    assert (pool.inputs["spec"]["size"], pool.inputs["id"]) == (3, UNKNOWN)


def test_a_preview_that_leaves_out_what_stays_is_refused() -> None:
    preview = {"steps": [{"op": "update", "newState": POOL}], "changeSummary": {"same": 60, "update": 1}}
    with pytest.raises(ReadError, match=r"leaves out 60 unchanged.*--show-sames"):
        read(json.dumps(preview))


def test_manifests_and_lists_of_them() -> None:
    one = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    more = {"apiVersion": "v1", "kind": "List", "items": [{**one, "apiVersion": "apps/v1", "kind": "Deployment"}]}
    document = read("\n---\n".join(json.dumps(part) for part in (one, None, more)))
    assert [one.type for one in document.resources] == ["kubernetes:core/v1:Service", "kubernetes:apps/v1:Deployment"]
    assert (document.whole, document.environment) == (False, "")


def test_a_stacks_file() -> None:
    text = json.dumps({"config": {"sparewheel:a": {"b": 1}, "sparewheel:key": {"secure": "CANARY"}}})
    document = read(text, "Pulumi.prod.yaml")
    assert document.environment == "prod"
    assert document.resources[0].type == CONFIG_TYPE
    assert document.resources[0].inputs == {"sparewheel:a": {"b": 1}, "sparewheel:key": SECRET}


def test_what_our_own_commands_print() -> None:
    needs = read(json.dumps([{"pool": "gpu", "needed": 3, "have": 1}]))
    assert (needs.spares_needed, needs.resources) == ({"gpu": 3}, ())
    record = {"apiVersion": "sparewheel.dev/v1alpha1", "kind": "Remediation", "metadata": {"name": "r"}}
    assert read(json.dumps([record])).records


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty"),
        ("{", "neither JSON nor YAML"),
        ("just words", "is no exported state"),
        ('{"kind": "Pod"}', "needs apiVersion"),
        ("[1, 2]", "is no exported state"),
    ],
)
def test_what_cannot_be_judged_is_refused(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(content)
    with pytest.raises(ReadError, match=rf"f\.yaml: .*{says}"):
        read_file(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="can't be read"):
        read_file(tmp_path / "none")


@given(st.recursive(st.text(max_size=4), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_no_secret_comes_through_wherever_it_stands(value: object) -> None:
    def planted(inner: Any) -> Any:
        if isinstance(inner, dict):
            return {key: planted(one) for key, one in inner.items()} | {"secret": ENCRYPTED}  # pyright: ignore[reportUnknownVariableType]
        return [*(planted(one) for one in inner), ENCRYPTED] if isinstance(inner, list) else [ENCRYPTED, inner]  # pyright: ignore[reportUnknownVariableType]

    shown = str(masked(planted(value)))
    assert "CANARY" not in shown
    assert SECRET in shown
