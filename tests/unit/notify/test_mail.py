"""Mail against a real SMTP server on loopback: STARTTLS, TLS, logins, refusals, silence; the password stays hidden."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sparewheel.api.routes import Audience, EmailRoute, MailSecurity, Person
from sparewheel.notify.port import NotifyError
from tests.support.receivers import Certificates, MailServer, certificates, mail_server
from tests.unit.notify.conftest import EVENT, MakeNotifier, ref

PASSWORD = "CANARY" + "-password"
LOGIN = {"username": "wheel", "password_ref": ref("password")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("certificates"))


def route(server: MailServer, **fields: Any) -> EmailRoute:
    values = {
        "name": "mail",
        "host": "127.0.0.1",
        "port": server.port,
        "from_address": "wheel@example.com",
        "to": ["oncall@example.com"],
        "security": MailSecurity.NONE,
    }
    return EmailRoute.model_validate({**values, **fields})


async def test_a_mail_says_what_happened_and_is_the_same_when_sent_again(notifier: MakeNotifier) -> None:
    async with mail_server() as server:
        send = notifier(route(server)).send
        event = {**EVENT, "title": "XID 79\r\nBcc: all@example.com", "note": "Bob has no address."}
        await send("mail", event, "key-1")
        await send("mail", event, "key-1")
        await send("mail", event, "key-2")
    first, again, other = (mail.message for mail in server.got)
    assert server.got[0].to == ["oncall@example.com"]
    assert first["Subject"] == "XID 79 Bcc: all@example.com"
    assert "Bcc" not in first
    assert first["Message-ID"] == again["Message-ID"] != other["Message-ID"]
    assert first["References"] == other["References"], "one thread"
    text = first.get_content()
    assert "The job is requeued." in text
    assert "job 7 of alice: it is requeued" in text
    assert "Bob has no address." in text


async def test_starttls_with_a_login(notifier: MakeNotifier, made: Certificates) -> None:
    async with mail_server(starttls=made.server) as server:
        server.logins.append(("wheel", PASSWORD))
        secured = route(server, security=MailSecurity.STARTTLS, ca_certificate=made.authority_pem, **LOGIN)
        await notifier(secured, secrets={"password": PASSWORD}).send("mail", EVENT, "k")
        assert server.got[0].encrypted
        with pytest.raises(NotifyError, match="535") as error:
            await notifier(secured, secrets={"password": PASSWORD + "x"}).send("mail", EVENT, "k")
    assert error.value.permanent
    assert PASSWORD not in str(error.value)


async def test_tls_from_the_first_byte(notifier: MakeNotifier, made: Certificates) -> None:
    async with mail_server(tls=made.server) as server:
        secured = route(server, security=MailSecurity.TLS, ca_certificate=made.authority_pem)
        await notifier(secured).send("mail", EVENT, "k")
        stranger = route(server, security=MailSecurity.TLS)
        with pytest.raises(NotifyError, match="certificate") as error:
            await notifier(stranger).send("mail", EVENT, "k")
    assert not error.value.permanent
    assert len(server.got) == 1


async def test_a_server_without_starttls_gets_no_mail_and_no_password(notifier: MakeNotifier) -> None:
    async with mail_server() as server:
        secured = route(server, security=MailSecurity.STARTTLS, **LOGIN)
        with pytest.raises(NotifyError, match="STARTTLS"):
            await notifier(secured, secrets={"password": PASSWORD}).send("mail", EVENT, "k")
        plain = route(server, **LOGIN)
        with pytest.raises(NotifyError, match="needs TLS") as error:
            await notifier(plain, secrets={"password": PASSWORD}).send("mail", EVENT, "k")
    assert error.value.permanent
    assert server.got == []


@pytest.mark.parametrize(("reply", "permanent"), [("451 4.7.1 Greylisted", False), ("554 5.7.1 Spam", True)])
async def test_what_the_server_says_decides_whether_to_try_again(
    notifier: MakeNotifier, reply: str, permanent: bool
) -> None:
    async with mail_server() as server:
        server.data_reply = reply
        with pytest.raises(NotifyError, match=reply) as error:
            await notifier(route(server)).send("mail", EVENT, "k")
    assert error.value.permanent is permanent


async def test_an_address_that_is_refused_holds_up_nobody_else(
    notifier: MakeNotifier, caplog: pytest.LogCaptureFixture
) -> None:
    async with mail_server() as server:
        server.refusals["gone@example.com"] = "550 5.1.1 No such user"
        both = route(server, to=["gone@example.com", "oncall@example.com"])
        await notifier(both).send("mail", EVENT, "k")
        assert server.got[0].to == ["oncall@example.com"]
        assert "gone@example.com" in caplog.text
        with pytest.raises(NotifyError, match=r"gone@example.com: 550 .*No such user") as error:
            await notifier(route(server, to=["gone@example.com"])).send("mail", EVENT, "k")
    assert error.value.permanent


async def test_an_owner_is_found_by_name_or_by_the_pattern(notifier: MakeNotifier) -> None:
    async with mail_server() as server:
        owners = route(server, to=[], audience=Audience.OWNER, owner_address="{user}@example.com")
        send = notifier(owners, people={"alice": Person(email="a.liddell@example.org")}).send
        await send("mail", {**EVENT, "owner": "alice"}, "a")
        await send("mail", {**EVENT, "owner": "bob"}, "b")
        with pytest.raises(NotifyError, match="has no address"):
            await send("mail", {**EVENT, "owner": "bob@evil.example,x"}, "c")
    assert [mail.to for mail in server.got] == [["a.liddell@example.org"], ["bob@example.com"]]


async def test_a_server_that_is_not_there_or_says_nothing(
    notifier: MakeNotifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = MailServer(port=1)
    with pytest.raises(NotifyError, match=r"127\.0\.0\.1:1") as error:
        await notifier(route(nobody)).send("mail", EVENT, "k")
    assert not error.value.permanent
    monkeypatch.setattr("sparewheel.notify.mail.TIMEOUT_SECONDS", 0.3)

    async def trickle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(b"220-wait\r\n")
                await writer.drain()
                await asyncio.sleep(0.05)
        except OSError:
            writer.close()

    async with await asyncio.start_server(trickle, "127.0.0.1", 0) as server:
        slow = MailServer(port=server.sockets[0].getsockname()[1])
        async with asyncio.timeout(30):
            with pytest.raises(NotifyError, match="took no mail"):
                await notifier(route(slow)).send("mail", EVENT, "k")
