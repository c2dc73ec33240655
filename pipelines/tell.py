"""Tells people: one comment for each stack on a pull or merge request, renewed by each run; an alert to a webhook."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

TIMEOUT_SECONDS: Final = 20.0
PAGE: Final = 100
MOST_PAGES: Final = 20


class TellError(Exception):
    """Nobody was told; the message says why, without address or token."""


@dataclass(frozen=True)
class Place:
    """Where the comments of one request are. ``one``: an address of a comment, with {id}."""

    comments: str
    one: str
    headers: Mapping[str, str]
    change: str


def place(env: Mapping[str, str]) -> Place | None:
    """From the pipeline's own variables; None where this run is of no request, or has no token to comment with."""
    token = env.get("COMMENT_TOKEN", "")
    if not token:
        return None
    if env.get("GITLAB_CI") and env.get("CI_MERGE_REQUEST_IID"):
        project = f"{env['CI_API_V4_URL']}/projects/{env['CI_PROJECT_ID']}"
        notes = f"{project}/merge_requests/{env['CI_MERGE_REQUEST_IID']}/notes"
        return Place(notes, f"{notes}/{{id}}", {"PRIVATE-TOKEN": token}, "PUT")
    number = _pull_request(env.get("GITHUB_EVENT_PATH", ""))
    if number is None:
        return None
    issues = f"{env['GITHUB_API_URL']}/repos/{env['GITHUB_REPOSITORY']}/issues"
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
    return Place(f"{issues}/{number}/comments", f"{issues}/comments/{{id}}", headers, "PATCH")


def comment(where: Place, text: str) -> None:
    """Writes the comment, or renews the one that begins with the same line. TellError where it can't."""
    first = text.partition("\n")[0]
    try:
        with httpx.Client(headers=dict(where.headers), timeout=TIMEOUT_SECONDS) as client:
            known = _find(client, where.comments, first)
            if known is None:
                answer = client.post(where.comments, json={"body": text})
            else:
                answer = client.request(where.change, where.one.format(id=known), json={"body": text})
    except httpx.HTTPError as error:
        raise TellError(f"the comment was not written: {type(error).__name__}") from None
    _check(answer, "the comment was not written")


def alert(url: str, text: str) -> None:
    """Posts ``{"text": ...}``, which Slack's incoming webhooks and most others take. TellError where it can't."""
    try:
        answer = httpx.post(url, json={"text": text}, timeout=TIMEOUT_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise TellError(f"the alert was not delivered: {type(error).__name__}") from None
    _check(answer, "the alert was not delivered")


def _find(client: httpx.Client, comments: str, first: str) -> int | None:
    for page in range(1, MOST_PAGES + 1):
        answer = client.get(comments, params={"per_page": PAGE, "page": page})
        _check(answer, "earlier comments can't be read")
        listed: list[dict[str, Any]] = answer.json()
        for one in listed:
            if str(one.get("body", "")).startswith(first):
                return int(one["id"])
        if len(listed) < PAGE:
            return None
    return None


def _check(answer: httpx.Response, what: str) -> None:
    if not answer.is_success:
        hint = "; look at the token's rights" if answer.status_code in (401, 403, 404) else ""
        raise TellError(f"{what}: HTTP {answer.status_code}{hint}")


def _pull_request(event: str) -> int | None:
    if not event or not Path(event).is_file():
        return None
    number = json.loads(Path(event).read_text("utf-8")).get("pull_request", {}).get("number")
    return int(number) if number is not None else None
