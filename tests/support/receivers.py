"""Real receivers on loopback: an HTTP server that answers as told, a mail server, certificates for both."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.raw)


@dataclass(slots=True)
class Web:
    """What the HTTP receiver answers, and what it got. Header names are in small letters."""

    status: int = 200
    answer_headers: dict[str, str] = field(default_factory=dict[str, str])
    answer: Callable[[Request], bytes] = lambda _: b""
    got: list[Request] = field(default_factory=list[Request])
    port: int = 0
    hangs: bool = False
    """Takes the request and says nothing."""
    trickles: bool = False
    """Answers a header line at a time, for ever."""

    def url(self, path: str = "/", scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            raw = await reader.readexactly(int(headers.get("content-length", "0")))
            request = Request(head[0].split(" ")[1], headers, raw)
            self.got.append(request)
            if self.hangs:
                await reader.read()
            await self._answer(request, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {self.status} Said\r\n".encode())
        while self.trickles:
            writer.write(b"X-More: 1\r\n")
            await writer.drain()
            await asyncio.sleep(0.05)
        body = self.answer(request)
        for name, value in {**self.answer_headers, "Content-Length": str(len(body)), "Connection": "close"}.items():
            writer.write(f"{name}: {value}\r\n".encode())
        writer.write(b"\r\n" + body)
        await writer.drain()


@asynccontextmanager
async def web(tls: ssl.SSLContext | None = None) -> AsyncGenerator[Web, None]:
    receiver, tasks = Web(), set[asyncio.Task[None]]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        await receiver.serve(reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# -------------------------------------------------------------------- mail
@dataclass(frozen=True, slots=True)
class Mail:
    sender: str
    to: list[str]
    message: EmailMessage
    encrypted: bool


@dataclass(slots=True)
class MailServer:
    """Implements aiosmtpd's handler: what it answers, and what it got."""

    refusals: dict[str, str] = field(default_factory=dict[str, str])
    """Reply to RCPT, by address."""
    data_reply: str = "250 OK"
    logins: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    got: list[Mail] = field(default_factory=list[Mail])
    port: int = 0

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, rcpt_options: list[str]
    ) -> str:
        if address in self.refusals:
            return self.refusals[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if not self.data_reply.startswith("250"):
            return self.data_reply
        content = envelope.content
        assert isinstance(content, bytes)
        message = message_from_bytes(content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        encrypted = session.ssl is not None
        self.got.append(Mail(envelope.mail_from or "", [*envelope.rcpt_tos], message, encrypted))
        return "250 OK"

    def authenticate(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        login = (data.login.decode(), data.password.decode())
        return AuthResult(success=login in self.logins, handled=False)


@asynccontextmanager
async def mail_server(
    starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[MailServer, None]:
    handler = MailServer()

    def protocol() -> SMTP:
        return SMTP(
            handler,
            tls_context=starttls,
            require_starttls=starttls is not None,
            authenticator=handler.authenticate,
            auth_require_tls=starttls is not None,
            hostname="mail.test",
            loop=asyncio.get_running_loop(),
        )

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0, ssl=tls)
    handler.port = server.sockets[0].getsockname()[1]
    try:
        yield handler
    finally:
        server.close()


# -------------------------------------------------------------------- certificates
@dataclass(frozen=True, slots=True)
class Certificates:
    authority_pem: str
    server: ssl.SSLContext


def certificates(folder: Path) -> Certificates:
    """An authority of its own and a server's certificate for 127.0.0.1 by it."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "receivers-ca")])
    authority = _certificate(name, name, authority_key, authority_key, x509.BasicConstraints(ca=True, path_length=0))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "receiver")])
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    server = _certificate(subject, name, server_key, authority_key, alternative)
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    key = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    (folder / "server.pem").write_bytes(server.public_bytes(pem) + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem")
    return Certificates(authority.public_bytes(pem).decode(), context)


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    return builder.sign(signer, hashes.SHA256())
