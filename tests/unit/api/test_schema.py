"""From pydantic models to structural schemas; what a structural schema can't say is refused, not bent."""

from __future__ import annotations

import json
import subprocess
import sys
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from sparewheel.api.admission import admission_manifests
from sparewheel.api.base import ApiModel, Time
from sparewheel.api.crd import KINDS, crd_manifest, crd_manifests
from sparewheel.api.schema import SchemaError, structural_schema


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Dog(ApiModel):
    kind: Literal["dog"] = "dog"
    bark_volume: int = Field(ge=0, le=120)
    name: str = ""


class Cat(ApiModel):
    kind: Literal["cat"] = "cat"
    name: str = ""


class Sample(ApiModel):
    """One of everything."""

    big: int
    small: int = Field(default=1, le=10)
    ratio: float = Field(default=0.5, gt=0, lt=1)
    when: Time | None = None
    colour: Colour = Colour.RED
    """Which colour."""
    tags: dict[str, str] = Field(default_factory=dict[str, str])
    pets: list[Annotated[Dog | Cat, Field(discriminator="kind")]] = Field(default_factory=list[Any])
    code: str = Field(default="", pattern="^a+$", max_length=9)


def properties() -> dict[str, Any]:
    return structural_schema(Sample)["properties"]


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("big", {"type": "integer", "format": "int64"}),
        ("small", {"type": "integer", "format": "int32", "maximum": 10}),
        (
            "ratio",
            {
                "type": "number",
                "format": "double",
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 1,
                "exclusiveMaximum": True,
            },
        ),
        ("when", {"type": "string", "format": "date-time", "nullable": True}),
        ("colour", {"type": "string", "enum": ["red", "blue"], "description": "Which colour."}),
        ("tags", {"type": "object", "additionalProperties": {"type": "string"}}),
        ("code", {"type": "string", "pattern": "^a+$", "maxLength": 9}),
    ],
)
def test_fields(name: str, schema: dict[str, Any]) -> None:
    assert properties()[name] == schema


def test_only_what_has_no_default_is_required() -> None:
    assert structural_schema(Sample)["required"] == ["big"]


def test_a_union_is_one_object_whose_rules_tell_its_kinds_apart() -> None:
    pet = properties()["pets"]["items"]
    assert pet["properties"]["kind"] == {"type": "string", "enum": ["dog", "cat"]}
    assert set(pet["properties"]) == {"kind", "barkVolume", "name"}
    assert pet["required"] == ["kind"]
    assert [rule["rule"] for rule in pet["x-kubernetes-validations"]] == [
        "!has(self.kind) || self.kind != 'dog' || (has(self.barkVolume))",
        "!has(self.kind) || self.kind != 'cat' || !(has(self.barkVolume))",
    ]


def test_a_union_without_a_discriminator_is_refused() -> None:
    class Loose(ApiModel):
        value: int | str

    with pytest.raises(SchemaError, match=r"Loose\.value: a union needs a discriminator"):
        structural_schema(Loose)


def test_a_union_whose_branches_differ_on_a_field_is_refused() -> None:
    class Fish(ApiModel):
        kind: Literal["fish"] = "fish"
        name: int = 0

    class Tank(ApiModel):
        pet: Dog | Fish = Field(discriminator="kind")

    with pytest.raises(SchemaError, match=r"Tank\.pet\.name: means different things"):
        structural_schema(Tank)


@pytest.mark.parametrize("model", KINDS, ids=lambda model: model.KIND)
def test_no_default_reaches_the_cluster(model: Any) -> None:
    """A default that the API server fills in would be a change that nobody made."""
    text = json.dumps(crd_manifest(model))
    assert '"default"' not in text
    assert '"$ref"' not in text
    assert '"title"' not in text


def test_printed_crds_are_the_manifests() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "sparewheel.api.crd"], check=True, capture_output=True, text=True
    ).stdout
    assert json.loads(printed)["items"] == crd_manifests()


def test_the_agents_policy_names_the_agents_account() -> None:
    policy, binding = admission_manifests("ours", "agent")
    condition = policy["spec"]["matchConditions"][0]["expression"]
    assert condition == "request.userInfo.username == 'system:serviceaccount:ours:agent'"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
