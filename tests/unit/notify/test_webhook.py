"""Webhooks and Slack against a real HTTP receiver on loopback: good, slow, broken, gone; and no address in an error."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sparewheel.api.routes import Audience, Person, SlackRoute, WebhookRoute
from sparewheel.notify.formats import MAX_SLACK_SECTION_CHARACTERS, MAX_SLACK_SECTIONS, slack
from sparewheel.notify.port import NotifyError
from sparewheel.notify.signing import SIGNATURE_HEADER, TIMESTAMP_HEADER, TOLERANCE_SECONDS, verify
from sparewheel.notify.web import MAX_RETRY_AFTER_SECONDS, retry_after
from tests.support.receivers import certificates, web
from tests.unit.notify.conftest import EVENT, NOW, MakeNotifier, ref

SECRET_PATH = "/services/" + "T0" + "token"
HOOK = WebhookRoute(name="team", url_ref=ref("url"))
SLACK = SlackRoute(name="team", url_ref=ref("url"))


async def test_a_webhook_gets_the_event_as_it_is_with_the_key(notifier: MakeNotifier) -> None:
    async with web() as receiver:
        await notifier(HOOK, secrets={"url": receiver.url(SECRET_PATH)}).send("team", EVENT, "key-1")
    (request,) = receiver.got
    assert (request.path, request.json) == (SECRET_PATH, EVENT)
    assert request.headers["idempotency-key"] == "key-1"
    assert request.headers["content-type"] == "application/json"
    assert SIGNATURE_HEADER.lower() not in request.headers


async def test_a_signed_webhook_proves_who_sent_it_and_when(notifier: MakeNotifier) -> None:
    route = WebhookRoute(name="team", url_ref=ref("url"), signing_ref=ref("key"))
    async with web() as receiver:
        await notifier(route, secrets={"url": receiver.url(), "key": "s3cret"}).send("team", EVENT, "k")
    (request,) = receiver.got
    timestamp, given = request.headers[TIMESTAMP_HEADER.lower()], request.headers[SIGNATURE_HEADER.lower()]
    now = NOW.timestamp()
    assert verify("s3cret", timestamp, given, request.raw, now)
    assert not verify("other", timestamp, given, request.raw, now), "another key"
    assert not verify("s3cret", timestamp, given, request.raw + b" ", now), "another body"
    assert not verify("s3cret", str(int(timestamp) + 1), given, request.raw, now), "another time"
    assert not verify("s3cret", timestamp, given, request.raw, now + TOLERANCE_SECONDS + 1), "a replay"
    assert not verify("s3cret", "soon", given, request.raw, now)
    assert not verify("s3cret", timestamp, "v1=ä", request.raw, now)


async def test_slack_gets_text_it_accepts(notifier: MakeNotifier) -> None:
    async with web() as receiver:
        await notifier(SLACK, secrets={"url": receiver.url(SECRET_PATH)}).send("team", EVENT, "key-1")
    text = receiver.got[0].json["blocks"][0]["text"]["text"]
    assert "XID 79 on gpu-1 &lt;a&gt;" in text
    assert "job 7 of alice: it is requeued" in text


async def test_an_owner_is_mentioned_on_slack_and_nobody_else(notifier: MakeNotifier) -> None:
    route = SLACK.model_copy(update={"audience": Audience.OWNER})
    people = {"alice": Person(slack="U012AB3CD")}
    async with web() as receiver:
        made = notifier(route, secrets={"url": receiver.url()}, people=people)
        await made.send("team", {**EVENT, "owner": "alice"}, "k")
        with pytest.raises(NotifyError, match="bob has no address"):
            await made.send("team", {**EVENT, "owner": "bob"}, "k")
    (request,) = receiver.got
    assert request.json["text"].startswith("<@U012AB3CD> ")


def test_slack_text_is_never_too_long_and_says_how_much_is_left_out() -> None:
    event = {**EVENT, "jobs": EVENT["jobs"] * 500, "text": "word " * 20000}
    blocks = slack(event, "")["blocks"]
    assert len(blocks) == MAX_SLACK_SECTIONS
    assert all(0 < len(block["text"]["text"]) <= MAX_SLACK_SECTION_CHARACTERS for block in blocks)
    assert "and 480 more jobs" in slack({**event, "text": "short"}, "")["blocks"][0]["text"]["text"]


@pytest.mark.parametrize(
    ("status", "permanent"),
    [(302, False), (400, True), (401, True), (404, True), (408, False), (429, False), (500, False), (503, False)],
)
async def test_a_refusal_is_an_error_without_the_address(notifier: MakeNotifier, status: int, permanent: bool) -> None:
    async with web() as receiver:
        receiver.status = status
        receiver.answer = lambda request: f"no_team at {request.path}".encode()
        with pytest.raises(NotifyError, match=f"team.*{status}") as error:
            await notifier(HOOK, secrets={"url": receiver.url(SECRET_PATH)}).send("team", EVENT, "k")
    assert error.value.permanent is permanent
    assert "token" not in str(error.value)
    assert "no_team at ***" in str(error.value), "what the receiver says is shown"


async def test_too_many_requests_says_when_to_come_back(notifier: MakeNotifier) -> None:
    async with web() as receiver:
        receiver.status, receiver.answer_headers = 429, {"Retry-After": "37"}
        with pytest.raises(NotifyError) as error:
            await notifier(HOOK, secrets={"url": receiver.url()}).send("team", EVENT, "k")
    assert error.value.retry_after_seconds == 37


def test_retry_after_in_all_its_forms() -> None:
    assert retry_after("5") == 5
    assert retry_after("999999999999") == MAX_RETRY_AFTER_SECONDS
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert retry_after("Wed, 21 Oct 2999 07:28:00 GMT") == MAX_RETRY_AFTER_SECONDS
    assert retry_after("soon") is None
    assert retry_after("") is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:1" + SECRET_PATH, "nonsense", "http://[" + SECRET_PATH])
async def test_no_answer_is_an_error_without_the_address(notifier: MakeNotifier, url: str) -> None:
    with pytest.raises(NotifyError) as error:
        await notifier(HOOK, secrets={"url": url}).send("team", EVENT, "k")
    assert not error.value.permanent
    assert "token" not in str(error.value)
    assert error.value.__cause__ is None


async def test_a_route_that_is_gone_and_a_secret_that_is_missing(notifier: MakeNotifier) -> None:
    with pytest.raises(NotifyError, match="not in the policy"):
        await notifier(HOOK).send("other", EVENT, "k")
    with pytest.raises(NotifyError, match="secret routes"):
        await notifier(HOOK).send("team", EVENT, "k")


@pytest.mark.parametrize("how", ["hangs", "trickles"])
async def test_an_answer_that_never_ends_is_no_answer(
    notifier: MakeNotifier, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("sparewheel.notify.web.TIMEOUT_SECONDS", 0.3)
    async with web() as receiver:
        setattr(receiver, how, True)
        async with asyncio.timeout(30):
            with pytest.raises(NotifyError, match="no answer"):
                await notifier(HOOK, secrets={"url": receiver.url()}).send("team", EVENT, "k")


async def test_a_receiver_with_a_private_certificate(notifier: MakeNotifier, tmp_path: Path) -> None:
    made = certificates(tmp_path)
    async with web(made.server) as receiver:
        secrets = {"url": receiver.url(SECRET_PATH, "https")}
        with pytest.raises(NotifyError, match=r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
            await notifier(HOOK, secrets=secrets).send("team", EVENT, "k")
        trusted = HOOK.model_copy(update={"ca_certificate": made.authority_pem})
        await notifier(trusted, secrets=secrets).send("team", EVENT, "k")
    assert len(receiver.got) == 1
