"""Comments and alerts against a server of the test's own: renewed, never doubled; no error holds a token."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pipelines import tell

FIRST = "<!-- sparewheel preview prod -->"


@dataclass
class Forge:
    """Comments as a forge keeps them. ``status``: what it answers instead."""

    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    asked: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    status: int = 200


@pytest.fixture
def forge() -> Iterator[Forge]:
    state = Forge()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body: dict[str, Any] = json.loads(self.rfile.read(length)) if length else {}
            token = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""
            state.asked.append((self.command, self.path.partition("?")[0], token))
            reply: Any = {}
            if self.command == "GET":
                page = int(self.path.partition("&page=")[2] or 1)
                reply = state.comments[(page - 1) * 100 : page * 100]
            elif self.command == "POST" and state.status < 300:
                state.comments.append({"id": len(state.comments) + 1, **body})
            elif state.status < 300:
                number = int(self.path.rpartition("/")[2])
                next(one for one in state.comments if one["id"] == number).update(body)
            self.send_response(state.status)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        do_GET = do_POST = do_PATCH = do_PUT = answer  # noqa: N815 - the protocol's names

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield state
    server.shutdown()
    server.server_close()


def github(forge: Forge, folder: Path) -> tell.Place:
    event = folder / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 12}}))
    env = {
        "COMMENT_TOKEN": "CANARY-token",
        "GITHUB_API_URL": forge.url,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_EVENT_PATH": str(event),
    }
    place = tell.place(env)
    assert place is not None
    return place


def test_github_one_comment_for_each_stack_renewed_by_each_run(forge: Forge, tmp_path: Path) -> None:
    place = github(forge, tmp_path)
    forge.comments = [{"id": number + 1, "body": "talk"} for number in range(150)]
    for text in ("one", "two"):
        tell.comment(place, f"{FIRST}\n{text}")
    tell.comment(place, f"{FIRST.replace('prod', 'staging')}\nother")
    assert [one["body"] for one in forge.comments[150:]] == [
        f"{FIRST}\ntwo",
        f"{FIRST.replace('prod', 'staging')}\nother",
    ]
    assert {token for _, _, token in forge.asked} == {"Bearer CANARY-token"}
    assert ("PATCH", "/repos/o/r/issues/comments/151", "Bearer CANARY-token") in forge.asked


def test_gitlab(forge: Forge) -> None:
    env = {
        "COMMENT_TOKEN": "CANARY-token",
        "GITLAB_CI": "true",
        "CI_API_V4_URL": f"{forge.url}/api/v4",
        "CI_PROJECT_ID": "7",
        "CI_MERGE_REQUEST_IID": "3",
    }
    place = tell.place(env)
    assert place is not None
    for text in ("one", "two"):
        tell.comment(place, f"{FIRST}\n{text}")
    assert [one["body"] for one in forge.comments] == [f"{FIRST}\ntwo"]
    assert forge.asked[-1] == ("PUT", "/api/v4/projects/7/merge_requests/3/notes/1", "CANARY-token")


def test_no_request_or_no_token_is_no_comment(tmp_path: Path) -> None:
    event = tmp_path / "push.json"
    event.write_text("{}")
    assert tell.place({"COMMENT_TOKEN": "t", "GITHUB_EVENT_PATH": str(event)}) is None
    assert tell.place({"COMMENT_TOKEN": "t"}) is None
    assert tell.place({"GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "3"}) is None


def test_a_refusal_names_neither_token_nor_address(forge: Forge, tmp_path: Path) -> None:
    forge.status = 403
    with pytest.raises(tell.TellError) as refused:
        tell.comment(github(forge, tmp_path), FIRST)
    assert str(refused.value) == "earlier comments can't be read: HTTP 403; look at the token's rights"
    for url in (f"{forge.url}/CANARY-url", "http://127.0.0.1:9/CANARY-url", "no address CANARY-url"):
        with pytest.raises(tell.TellError) as undelivered:
            tell.alert(url, "drift")
        assert "CANARY" not in str(undelivered.value)


def test_an_alert_is_delivered(forge: Forge) -> None:
    tell.alert(f"{forge.url}/hook", "prod: drift")
    assert forge.comments[0]["text"] == "prod: drift"
