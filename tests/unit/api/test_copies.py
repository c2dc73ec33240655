"""Deep copies of our models: equal, and nothing of them is shared that can change."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from typing import Any, cast

import pytest
from pydantic import BaseModel, ValidationError

from sparewheel.api.base import ApiModel, lean
from sparewheel.api.node_health import NodeHealth
from sparewheel.api.remediation import JobRecord, NodeStage, Remediation, StageRecord
from sparewheel.remediation.decide.record import copy
from tests.support.incidents import at, remediation


def full() -> Remediation:
    record = remediation()
    record.metadata.labels["a"] = "b"
    record.status.stages.append(StageRecord(name=NodeStage.DETECTED, started_at=at(0), attempts=1))
    record.status.jobs.append(JobRecord(job_id=7, hosts_before=["gpu-1"]))
    record.status.owned.held_nodes = ["gpu-0"]
    return record


def parts(value: Any) -> Iterator[Any]:
    """What can change, all the way down."""
    if isinstance(value, BaseModel):
        yield value
        for one in vars(value).values():
            yield from parts(one)
    elif isinstance(value, list | dict):
        yield value
        inside = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        for one in inside:
            yield from parts(one)


def containers(kind: type[BaseModel]) -> set[str]:
    """Fields in whose type a list, a dict, a set or a model stands."""
    texts = {name: str(field.annotation) for name, field in kind.model_fields.items()}
    models = {one.__name__ for one in everyone(ApiModel)} | {"ObjectMeta"}
    words = {name: set(re.findall(r"\w+", text)) for name, text in texts.items()}
    return {name for name, found in words.items() if found & {"list", "dict", "set", *models}}


def everyone(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for one in kind.__subclasses__():
        yield one
        yield from everyone(one)


def test_a_copy_is_equal_and_shares_nothing_that_can_change() -> None:
    record = full()
    made = record.model_copy(deep=True)
    assert made == record
    assert made.model_fields_set == record.model_fields_set
    assert made.to_wire() == record.to_wire()
    assert not {id(part) for part in parts(made)} & {id(part) for part in parts(record)}


@pytest.mark.parametrize("kind", sorted(everyone(ApiModel), key=str), ids=lambda kind: kind.__name__)
def test_no_model_has_a_field_whose_value_can_change_and_is_shared(kind: type[BaseModel]) -> None:
    fields: dict[str, Any] = {name: ["anything"] for name in kind.model_fields}
    value = kind.model_construct(None, **fields)
    shared = {id(part) for part in parts(value)} & {id(part) for part in parts(value.model_copy(deep=True))}
    assert not {name for name in kind.model_fields if id(getattr(value, name)) in shared} & containers(kind)


def test_a_lean_object_is_the_same_in_all_but_which_fields_were_set() -> None:
    record = full()
    made = lean(full())
    assert made == record
    assert made.to_wire() == record.to_wire()
    made.status.jobs[0].job_id = 8
    assert full().status.jobs[0].model_fields_set == record.status.jobs[0].model_fields_set
    assert made.model_copy(deep=True) == made


def test_equal_parts_of_lean_objects_stand_once_where_nothing_can_change_them() -> None:
    text = '{"metadata": {"name": "gpu-1"}, "status": {"bootId": "boot-1", "gpus": {"expected": 8, "seen": 8}}}'
    one, other = (lean(NodeHealth.from_wire(json.loads(text))).status for _ in range(2))
    assert one.gpus is other.gpus
    assert one.boot_id is other.boot_id
    assert one.faults is not other.faults
    with pytest.raises(ValidationError):
        one.gpus.seen = 7


def test_a_change_of_the_copy_leaves_the_original() -> None:
    record = full()
    before = pickle.dumps(record)
    changed = copy(record.status)
    changed.owned.held_nodes.append("gpu-9")
    changed.jobs[0].hosts_before.append("gpu-9")
    changed.stages[0].attempts = 5
    assert pickle.dumps(record) == before
    assert changed != record.status


def test_what_a_copy_takes_is_checked_as_ever() -> None:
    made = full().model_copy(deep=True)
    made.status.jobs[0].job_id = 8
    assert made.status.jobs[0].model_dump(by_alias=True)["jobId"] == 8
