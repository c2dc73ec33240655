"""The agent against logs and answers that are wrong: it goes on, says what it could not read, and reports later."""

from __future__ import annotations

import http.client
import http.server
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sparewheel.agent.api import ApiError, ApiServer
from sparewheel.agent.kernel_log import CHUNK_BYTES, READ_BYTES, KmsgFile
from sparewheel.agent.node import NodeWriter
from sparewheel.api.enums import Action, FaultSource, Severity
from sparewheel.faults.classify import OpenFault
from tests.support.agent_host import START, XID_79, Host

XID = "3,{seq},0,-;NVRM: Xid (PCI:0000:17:00): "


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        XID + "9" * 5000 + ", x",
        XID + "154, to 0x" + "f" * 5000,
        "3,{seq},-99999999999999999999,-;NVRM: Xid (PCI:0000:17:00): 79, x",
        "3,{seq}," + "9" * 400 + ",-;NVRM: Xid (PCI:0000:17:00): 79, x",
        "3,9" + "9" * 30 + ",0,-;text",
        "\x00\x01;;,,\ufffd",
    ],
)
def test_a_line_that_cannot_be_is_counted_and_the_next_one_read(host: Host, line: str) -> None:
    host.turn()
    host.write(line + "\n", seq=1)
    host.write(XID_79, seq=2)
    host.turn()
    assert host.api.status.malformed_lines == 1
    assert [fault.code for fault in host.api.status.faults] == ["XID 79"]


def test_a_flood_is_read_in_chunks_and_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("x" * 99 + "\n" + ("y" * 99 + "\n") * 10_000)
    log = KmsgFile(path)
    sizes: list[int] = []
    while lines := log.read_lines():
        sizes.append(sum(len(line) + 1 for line in lines))
    assert sum(sizes) == 1_000_100
    assert max(sizes) <= CHUNK_BYTES + READ_BYTES


def test_of_an_endless_line_the_start_is_kept_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("a" * 3 * CHUNK_BYTES)
    log = KmsgFile(path)
    assert log.read_lines() == []
    with path.open("a") as file:
        file.write("b\nnext\n")
    first, second = log.read_lines()
    assert first == "a" * READ_BYTES
    assert second == "next"


def test_a_log_that_cannot_be_read_is_never_healthy(host: Host) -> None:
    host.turn()
    host.log.rename(host.root / "away")
    host.turn(6)
    assert host.api.conditions[-1]["status"] == "Unknown"
    assert "kernel log cannot be read" in host.api.status.message
    (host.root / "away").rename(host.log)
    host.write(XID_79)
    host.turn()
    assert [fault.code for fault in host.api.status.faults] == ["XID 79"]
    assert "kernel log" not in host.api.conditions[-1]["message"]


def test_a_report_of_a_newer_agent_is_taken_over_as_far_as_it_is_known(host: Host) -> None:
    host.turn()
    host.write(XID_79)
    host.turn()
    assert host.api.health is not None
    known = host.api.health["status"]["faults"][0]
    host.api.health["status"]["faults"] = [{**known, "code": "XID 1", "action": "teleport"}, known]
    host.start()
    host.turn()
    assert [fault.code for fault in host.api.status.faults] == ["XID 79"]


def test_repeats_of_a_fault_wait_for_the_heartbeat(host: Host) -> None:
    host.turn()
    host.write(XID_79, seq=1)
    host.turn(0.2)
    host.write(XID_79, seq=2)
    host.turn(0.2)
    assert host.api.status.faults[0].count == 1
    host.turn(1)
    assert host.api.status.faults[0].count == 2


class _Answers(http.server.BaseHTTPRequestHandler):
    body = b""
    date = ""

    def date_time_string(self, timestamp: float | None = None) -> str:
        return self.date or super().date_time_string(timestamp)

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Silent."""


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[ApiServer]:
    (tmp_path / "token").write_text("t")
    with http.server.HTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        connection: Any = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
        yield ApiServer("127.0.0.1", server.server_port, tmp_path, _connection=connection)
        connection.close()
        server.shutdown()
        thread.join()


def test_the_server_s_time_counts_and_goes_on_by_a_clock_that_nobody_sets(
    answering: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node whose own clock is hours wrong begins what it is asked, and nothing that is long over."""
    seconds = [100.0]
    answering.monotonic_seconds = lambda: seconds[0]
    monkeypatch.setattr(_Answers, "body", b"{}")
    monkeypatch.setattr(_Answers, "date", "Tue, 15 Nov 1994 08:12:31 GMT")
    assert abs((answering.now() - datetime.now(UTC)).total_seconds()) < 5, "nothing was said yet"
    answering.request("GET", "/")
    seconds[0] += 7
    assert answering.now() == datetime(1994, 11, 15, 8, 12, 38, tzinfo=UTC)
    monkeypatch.setattr(_Answers, "date", "yesterday")
    answering.request("GET", "/")
    assert answering.now() == datetime(1994, 11, 15, 8, 12, 38, tzinfo=UTC)


@pytest.mark.parametrize("body", [b'{"metadata": {"uid"', b"<html>", b"\xff\xfe", b"[]", b"null", b'{"metadata": 3}'])
def test_an_answer_that_is_none_is_an_error_of_the_api(answering: ApiServer, body: bytes) -> None:
    _Answers.body = body
    with pytest.raises(ApiError):
        NodeWriter(answering, "gpu-1").load()


class _Trickles(http.server.BaseHTTPRequestHandler):
    """One byte each twentieth of a second, for ever: no single read is ever late."""

    protocol_version = "HTTP/1.1"
    headers_first = True
    ends: threading.Event

    def do_GET(self) -> None:
        if self.headers_first:
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
        while not self.ends.wait(0.05):
            try:
                self.wfile.write(b"x")
            except OSError:
                return

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Silent."""


@pytest.mark.parametrize("headers_first", [True, False], ids=["in the body", "before the headers"])
def test_an_answer_that_trickles_ends_at_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headers_first: bool
) -> None:
    ends = threading.Event()
    monkeypatch.setattr(_Trickles, "headers_first", headers_first)
    monkeypatch.setattr(_Trickles, "ends", ends, raising=False)
    (tmp_path / "token").write_text("t")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Trickles) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        plain = http.client.HTTPConnection("127.0.0.1", server.server_port)
        api = ApiServer("127.0.0.1", server.server_port, tmp_path, deadline_seconds=0.5, _connection=plain)
        began = time.monotonic()
        with pytest.raises(ApiError, match="no answer from the API server"):
            api.request("GET", "/")
        assert 0.5 <= time.monotonic() - began < 30
        ends.set()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("protocol", ["HTTP/1.0", "HTTP/1.1"], ids=["closed after each", "kept"])
def test_a_whole_answer_is_read_on_a_new_and_on_a_kept_connection(
    answering: ApiServer, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    monkeypatch.setattr(_Answers, "protocol_version", protocol)
    _Answers.body = b'{"items": [%s]}' % b",".join([b"1"] * 100_000)
    for _ in range(3):
        assert len(answering.request("GET", "/")["items"]) == 100_000


def test_a_token_that_is_gone_is_an_error_of_the_api(answering: ApiServer) -> None:
    (answering.service_account / "token").unlink()
    with pytest.raises(ApiError, match="token"):
        answering.request("GET", "/")


def test_events_never_hold_the_report() -> None:
    class Silent:
        asked = 0

        def request(self, method: str, path: str, body: Any = None, content_type: str = "") -> Any:
            self.asked += 1
            raise ApiError("no answer")

    faults = [
        OpenFault(f"XID {n}", "", Action.RECORD, Severity.WARNING, FaultSource.KERNEL_LOG, START, START)
        for n in range(9)
    ]
    silent = Silent()
    NodeWriter(silent, "gpu-1").write_events(faults)
    assert silent.asked == 1
