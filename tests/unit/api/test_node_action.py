"""Requests to a node's helper: what is written is read again, and what is none is refused with a reason."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.enums import NodeActionKind
from sparewheel.api.node_action import BadRequestError, NodeActionRequest, from_annotation, to_annotation
from sparewheel.api.node_health import NodeHealth

WHEN = datetime(2026, 1, 2, tzinfo=UTC)


@given(
    st.from_regex(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,60}", fullmatch=True),
    st.one_of(
        st.tuples(st.just(NodeActionKind.REBOOT), st.just("")),
        st.tuples(
            st.just(NodeActionKind.RESET_GPU), st.from_regex(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}", fullmatch=True)
        ),
    ),
    st.datetimes(timezones=st.just(UTC)),
)
def test_what_is_written_is_read(request_id: str, what: tuple[NodeActionKind, str], deadline: datetime) -> None:
    request = NodeActionRequest(request_id, what[0], deadline, what[1])
    assert from_annotation(to_annotation(request)) == request


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("reboot", "no JSON"),
        ("[]", "no JSON object"),
        ("{}", "id"),
        ('{"id": "a b", "kind": "reboot", "deadline": "2026-01-02T00:00:00Z"}', "id"),
        ('{"id": "a", "kind": "halt", "deadline": "2026-01-02T00:00:00Z"}', "halt"),
        ('{"id": "a", "kind": "reboot"}', "isoformat"),
        ('{"id": "a", "kind": "reboot", "deadline": "2026-01-02T00:00:00"}', "time zone"),
        ('{"id": "a", "kind": "reset_gpu", "deadline": "2026-01-02T00:00:00Z"}', "device"),
        ('{"id": "a", "kind": "reboot", "device": "0000:17:00", "deadline": "2026-01-02T00:00:00Z"}', "device"),
        ('{"id": "a", "kind": "reset_gpu", "device": "0; halt", "deadline": "2026-01-02T00:00:00Z"}', "device"),
    ],
)
def test_what_is_none_says_why(text: str, says: str) -> None:
    with pytest.raises(BadRequestError, match=says):
        from_annotation(text)


def test_the_answer_has_its_place_in_the_report() -> None:
    action = {
        "id": "r1",
        "kind": "reset_gpu",
        "device": "0000:17:00",
        "state": "running",
        "time": "2026-01-02T00:00:00Z",
    }
    body = {"metadata": {"name": "gpu-1"}, "status": {"action": action}}
    read = NodeHealth.from_wire(body).status.action
    assert read is not None
    assert (read.id, read.kind, read.time) == ("r1", NodeActionKind.RESET_GPU, WHEN)
