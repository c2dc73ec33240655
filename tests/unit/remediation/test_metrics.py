"""``/metrics``: what stands in it, read back by a parser of the text form, and served over a socket."""

from __future__ import annotations

import asyncio
import re

import pytest

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import Claim, GpuHost, GpuHostSpec, GpuHostStatus, HostPhase
from sparewheel.api.ladder import RungResult
from sparewheel.api.remediation import NodeStage, Outcome
from sparewheel.remediation.controller.health import serve_health
from sparewheel.remediation.controller.metrics import render
from sparewheel.remediation.decide.spare_need import need_of_pool
from tests.support.incidents import T0, fault, pool, remediation, stage
from tests.support.ladders import REBOOT, climbing, ended_rung, rung
from tests.support.world import World

LINE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)$')


def read(text: str) -> dict[str, float]:
    """``name{labels}`` to its value; a line that is no line of the text form fails."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.match(r"# (HELP|TYPE) [a-z_]+ ", line)
            continue
        match = LINE.match(line)
        assert match, line
        found[line.rpartition(" ")[0]] = float(match[3])
    return found


def host(name: str, **status: object) -> GpuHost:
    return GpuHost(
        metadata=ObjectMeta(name=name),
        spec=GpuHostSpec(pool="gpu", host=name, provider_id=f"machines://{name}"),
        status=GpuHostStatus.model_validate(status),
    )


def test_spares_incidents_and_stages() -> None:
    hosts = [
        host("a"),
        host("b", claim=Claim(owner="remediation/x", time=T0)),
        host("c", phase=HostPhase.QUARANTINED, lemon=True),
        host("d", phase=HostPhase.QUARANTINED),
        host("e", phase=HostPhase.ACTIVE),
    ]
    healed = remediation(
        "x", outcome=Outcome.HEALED, stages=[stage(NodeStage.FENCED, 0, 2), stage(NodeStage.DRAINED, 2)]
    )
    drill = remediation("y", outcome=Outcome.HEALED, fault=fault(drill=True), stages=[stage(NodeStage.FENCED, 0, 9)])
    need = need_of_pool(pool(size=16), hosts, [healed], T0)
    found = read(render([need], hosts, [healed, drill], leading=True))
    assert found["sparewheel_leading"] == 1
    assert found['sparewheel_spares_needed{pool="gpu"}'] == need.needed
    assert found['sparewheel_spares_short{pool="gpu"}'] == 1
    states = {
        state: found[f'sparewheel_spares{{pool="gpu",state="{state}"}}'] for state in ("free", "claimed", "lemon")
    }
    assert states == {"free": 1, "claimed": 1, "lemon": 1}
    assert found['sparewheel_incidents{pool="gpu",outcome="Healed",kind="drill"}'] == 1
    assert found['sparewheel_stage_seconds_bucket{stage="fenced",le="1"}'] == 0
    assert found['sparewheel_stage_seconds_bucket{stage="fenced",le="5"}'] == 1
    assert found['sparewheel_stage_seconds_count{stage="fenced"}'] == 1, "a drill is no measurement"
    assert not any("drained" in name for name in found), "a stage that goes on has taken no time yet"


def test_rungs_of_the_ladder_by_how_they_went() -> None:
    mended = climbing(ended_rung(RungResult.TIMED_OUT), ended_rung(RungResult.SUCCEEDED, REBOOT), rung(id="x.3"))
    drilled = climbing(ended_rung(RungResult.SUCCEEDED), first=fault(drill=True))
    found = read(render([], [], [mended, drilled], leading=True))
    rungs = {name: value for name, value in found.items() if name.startswith("sparewheel_rungs")}
    assert rungs == {
        'sparewheel_rungs{pool="gpu",rung="reset_gpu",result="timed_out"}': 1,
        'sparewheel_rungs{pool="gpu",rung="reboot",result="succeeded"}': 1,
    }


def test_a_name_that_would_break_a_line_is_escaped() -> None:
    odd = remediation("x", pool='a"b\\c\nd')
    assert 'pool="a\\"b\\\\c\\nd"' in render([], [], [odd], leading=False)


async def test_served_beside_health(unused_tcp_port: int) -> None:
    controller = World().controller()
    async with serve_health(unused_tcp_port, controller):
        for path, code in (("/metrics", b"200"), ("/healthz", b"503"), ("/metricsx", b"404"), ("", b"404")):
            reader, writer = await asyncio.open_connection("127.0.0.1", unused_tcp_port)
            writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            assert answer.split()[1] == code, path
            if path == "/metrics":
                assert b"text/plain; version=0.0.4" in answer
                assert read(answer.partition(b"\r\n\r\n")[2].decode())["sparewheel_leading"] == 0


@pytest.fixture
def unused_tcp_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
