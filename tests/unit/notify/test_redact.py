"""No secret in logs, records and errors, whatever a receiver echoes; and what is no secret is still shown."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sparewheel.api.remediation import Remediation
from sparewheel.api.remediation_policy import RemediationPolicySpec
from sparewheel.api.routes import EmailRoute, PagerDutyRoute, Route, SlackRoute, WebhookRoute
from sparewheel.kube.port import REMEDIATION
from sparewheel.notify.redact import MAX_CHARACTERS, parts_of_url, redact
from sparewheel.remediation.controller.__main__ import set_up_logging
from sparewheel.remediation.decide.deliveries import enqueue
from sparewheel.remediation.decide.events import EVENT_DETECTED
from sparewheel.remediation.stages import outbox
from sparewheel.remediation.stages.incident import Incident
from sparewheel.remediation.stages.journal import Journal
from tests.support.canaries import leaks
from tests.support.incidents import fenced
from tests.support.receivers import Request, certificates, mail_server, web
from tests.support.world import World
from tests.unit.notify.conftest import MakeNotifier, ref

CANARY = "CANARY+/9 secret"


@pytest.mark.parametrize(
    "form", [CANARY, quote(CANARY), quote(CANARY, safe=""), base64.b64encode(CANARY.encode()).decode()]
)
def test_a_secret_is_hidden_in_each_form_and_the_rest_is_shown(form: str) -> None:
    found = redact(f"invalid_token {form} for service payments", {CANARY})
    assert found == "invalid_token *** for service payments"


def test_an_address_is_hidden_in_parts_but_its_host_is_no_secret() -> None:
    url = "https://hooks.example.com:8443/services/T0ABC/B0DEF/longtoken?key=querytoken&v=2"
    hidden = parts_of_url(url)
    said = redact("hooks.example.com:8443 says: longtoken of T0ABC with querytoken, version 2", hidden)
    assert said == "hooks.example.com:8443 says: *** of *** with ***, version 2"
    assert redact(f"can't connect to {url}", hidden) == "can't connect to ***"


def test_what_a_receiver_says_is_one_short_line() -> None:
    found = redact("a\r\nFAKE LOG LINE\x1b[31m" + "x" * 5000, set())
    assert "\n" not in found
    assert "\x1b" not in found
    assert len(found) == MAX_CHARACTERS


def echo(request: Request) -> bytes:
    """The rudest receiver: it says all that it was told."""
    return f"team_archived at {request.path}: {request.raw.decode()}".encode()[:150] + request.raw[:1500]


def routes(url: str, port: int, authority: str) -> list[Route]:
    mail: dict[str, Any] = {"host": "127.0.0.1", "port": port, "from_address": "w@example.com", "to": ["o@example.com"]}
    return [
        WebhookRoute(name="hook", url_ref=ref("url"), signing_ref=ref("signing")),
        SlackRoute(name="chat", url_ref=ref("url")),
        PagerDutyRoute(name="pager", routing_key_ref=ref("routing"), url=url),
        EmailRoute(name="mail", username="wheel", password_ref=ref("password"), ca_certificate=authority, **mail),
    ]


async def test_no_secret_gets_into_a_record_or_a_log(
    notifier: MakeNotifier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All four kinds, with receivers that refuse and echo; the log at its most talkative."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    made = certificates(tmp_path)
    try:
        async with web() as receiver, mail_server(starttls=made.server) as mail:
            set_up_logging()
            root.setLevel(logging.DEBUG)
            receiver.status, receiver.answer = 404, echo
            secrets = {
                "url": receiver.url("/services/CANARY-path?key=CANARY-query"),
                "signing": "CANARY-signing",
                "routing": "CANARY-routing-key",
                "password": "CANARY-password",
            }
            everything = routes(receiver.url("/v2/enqueue"), mail.port, made.authority_pem)
            record = await deliver(notifier(*everything, secrets=secrets), everything)
    finally:
        root.handlers[:], root.level = before
    printed = capsys.readouterr()
    shown = printed.out + printed.err + str(record.to_wire())
    assert leaks({"log": printed.out + printed.err, "record": str(record.to_wire())}) == []
    errors = {message.route: message.last_error for message in record.status.outbox}
    assert "HTTP 404: team_archived at ***" in errors["hook"], "what is no secret is shown"
    assert "HTTP 404: team_archived" in errors["chat"]
    assert "HTTP 404: team_archived at ***" in errors["pager"]
    assert "535" in errors["mail"]
    assert all(error.split(":")[0] in shown for error in errors.values())
    assert len(receiver.got) == 3


async def deliver(notifier: Any, everything: list[Route]) -> Remediation:
    """One message in an outbox, tried on every route."""
    world = World()
    world.put_policy(RemediationPolicySpec(routes=everything))
    record = fenced()
    names = [route.name for route in everything]
    record.status = enqueue(record.metadata.name, EVENT_DETECTED, names, world.clock.now())(record.status)
    controller = world.controller()
    controller.ports.notifier, controller.ports.leading = notifier, lambda: True
    controller.state.policy_spec = RemediationPolicySpec(routes=everything)
    seen = Remediation.from_wire(world.kube.put(REMEDIATION, record.to_wire()))
    incident = Incident(controller.ports, Journal(world.kube, seen))
    for name in names:
        assert await outbox.act(incident, name) is None, "refused for good"
    return incident.record
