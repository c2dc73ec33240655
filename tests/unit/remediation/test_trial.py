"""Test messages: a request on the policy is answered once, by the leader, with what became of each route."""

from __future__ import annotations

import asyncio

import pytest
from rich.table import Table
from typer.testing import CliRunner

from sparewheel.api.gpu_pool import SecretKeyRef
from sparewheel.api.names import ANNOTATION_NOTIFY_TEST, NAMESPACE, POLICY_NAME
from sparewheel.api.remediation_policy import NotifyTest, RemediationPolicySpec, RouteTest
from sparewheel.api.routes import Audience, EmailRoute, WebhookRoute
from sparewheel.cli.app import every_command
from sparewheel.cli.commands.notify import ask, table
from sparewheel.cli.common import CommandError
from sparewheel.cli.undelivered import undelivered, undelivered_json
from sparewheel.kube.port import REMEDIATION_POLICY
from sparewheel.remediation.decide.deliveries import delivery_failed, enqueue
from sparewheel.remediation.decide.trial import read, request
from tests.support.incidents import at, fenced
from tests.support.play import playing
from tests.support.world import World

pytestmark = pytest.mark.looptime

HOOK = WebhookRoute(name="hook", url_ref=SecretKeyRef(name="routes", key="url"))
OWNERS = EmailRoute(
    name="owners",
    audience=Audience.OWNER,
    host="mail",
    from_address="w@example.com",
    owner_address="{user}@example.com",
)


def results(answer: NotifyTest) -> list[tuple[str, bool, str]]:
    return [(result.route, result.delivered, result.error) for result in answer.results]


async def test_each_route_is_tried_and_the_answer_is_taken_once() -> None:
    world = World()
    world.put_policy(RemediationPolicySpec(routes=[HOOK, OWNERS]))
    world.receiver.refused = {"test/b/hook"}
    async with playing(world):
        first = await ask(world.kube, world.clock, request("a", "", "", "ada"))
        assert results(first) == [("hook", True, ""), ("owners", False, "is for owners; name one with --user")]
        second = await ask(world.kube, world.clock, request("b", "", "bob", "ada"))
        assert [(route, delivered) for route, delivered, _ in results(second)] == [("hook", False), ("owners", True)]
        assert "HTTP 503" in second.results[0].error
        none = await ask(world.kube, world.clock, request("c", "chat", "", "ada"))
        assert results(none) == [("chat", False, "there is no such route; the routes are: hook, owners")]
        await asyncio.sleep(30)
    body = world.kube.peek(REMEDIATION_POLICY, POLICY_NAME, NAMESPACE)
    assert body is not None
    assert ANNOTATION_NOTIFY_TEST not in body["metadata"].get("annotations", {}), "nothing stays on a declared object"
    assert len(world.receiver.tries) == 3
    sent = world.receiver.events["test/a/hook"]
    assert (sent["event"], sent["actionNeeded"]) == ("test", False)
    assert "ada asked for a test" in sent["text"]


async def test_without_a_controller_the_command_says_so_and_takes_its_request_back() -> None:
    world = World()
    with pytest.raises(CommandError, match="did not answer within 60 s"):
        await ask(world.kube, world.clock, request("a", "", "", "ada"))
    assert 60 <= world.clock.monotonic_seconds() <= 61
    body = world.kube.peek(REMEDIATION_POLICY, POLICY_NAME, NAMESPACE)
    assert body is not None
    assert not body["metadata"].get("annotations")


@pytest.mark.parametrize("text", ["", "soon", "[]", "{}", '{"id": ""}'])
def test_what_is_no_request_is_left_alone(text: str) -> None:
    assert read(text) is None


def test_what_was_asked_is_read_back() -> None:
    asked = read(request("a", "hook", "bob", "ada"))
    assert asked is not None
    assert (asked.identity, asked.route, asked.user, asked.asked_by) == ("a", "hook", "bob", "ada")


def test_the_table_says_why_and_the_command_is_there() -> None:
    shown = table(NotifyTest(results=[RouteTest(route="hook", kind="webhook", error="route hook: HTTP 404")]))
    assert [next(iter(column.cells)) for column in shown.columns][:2] == ["hook", "webhook"]
    helped = CliRunner().invoke(every_command(), ["notify", "test", "--help"])
    assert helped.exit_code == 0
    assert "--route" in helped.output


def test_what_was_not_delivered_is_a_table_and_all_well_is_none() -> None:
    record = fenced()
    record.status = enqueue("r", "a", ["hook", "chat"], at(0))(record.status)
    assert undelivered([record], at(9)) is None
    record.status = delivery_failed("r/a/hook", at(1), "HTTP 404", permanent=True)(record.status)
    record.status = delivery_failed("r/a/chat", at(1), "HTTP 503")(record.status)
    shown = undelivered([record], at(9))
    assert shown is not None
    assert rows_of(shown) == [["hook", "1", "0", "HTTP 404"], ["chat", "0", "1", "HTTP 503"]]
    found = {one["route"]: (one["remediation"], one["state"], one["lastError"]) for one in undelivered_json([record])}
    name = record.metadata.name
    assert found == {"hook": (name, "undelivered", "HTTP 404"), "chat": (name, "queued", "HTTP 503")}


def rows_of(shown: Table) -> list[list[str]]:
    """Cells without the age."""
    columns = [[str(cell) for cell in column.cells] for number, column in enumerate(shown.columns) if number != 3]
    return [list(row) for row in zip(*columns, strict=True)]


def test_a_route_that_is_down_is_one_short_line_however_many_messages_it_owes() -> None:
    record = fenced()
    for event in ("a", "b", "c"):
        record.status = enqueue("r", event, ["hook"], at(0))(record.status)
        record.status = delivery_failed(f"r/{event}/hook", at(1), f"{event}: no\nanswer " + "x" * 200)(record.status)
    shown = undelivered([record], at(9))
    assert shown is not None
    assert rows_of(shown) == [["hook", "0", "3", ("c: no answer " + "x" * 200)[:80]]]
