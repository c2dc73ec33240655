"""One mail over SMTP, and what the server's answer means. The password is sent under TLS or not at all."""

from __future__ import annotations

import asyncio
import socket
import ssl
from email.message import EmailMessage

import aiosmtplib

from sparewheel.api.routes import EmailRoute, MailSecurity
from sparewheel.notify.port import NotifyError
from sparewheel.notify.redact import redact
from sparewheel.notify.web import trusting

TIMEOUT_SECONDS = 12.0


async def send(route: EmailRoute, mail: EmailMessage, password: str) -> list[str]:
    """Deliver once; addresses that the server refused while it took others. Raises NotifyError otherwise."""
    if password and route.security is MailSecurity.NONE:
        raise NotifyError(f"route {route.name}: a password needs TLS; set security to starttls or tls", permanent=True)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):  # the library's is for each step: a trickle would never end
            refused, _ = await aiosmtplib.send(
                mail,
                hostname=route.host,
                port=route.port,
                username=route.username or None,
                password=password or None,
                use_tls=route.security is MailSecurity.TLS,
                start_tls=route.security is MailSecurity.STARTTLS,
                tls_context=None if route.security is MailSecurity.NONE else trusting(route.ca_certificate),
                local_hostname=socket.gethostname(),
                timeout=TIMEOUT_SECONDS,
            )
    except (aiosmtplib.SMTPException, OSError, ssl.SSLError, ValueError) as error:
        raise _failure(route, error, password) from None
    return sorted(refused)


def _failure(route: EmailRoute, error: Exception, password: str) -> NotifyError:
    server = f"route {route.name}: mail server {route.host}:{route.port}"
    said = redact(_words(error), {password}) or "it took too long"
    codes = _codes(error)
    if codes:
        return NotifyError(f"{server} refused the mail: {said}", permanent=all(code >= 500 for code in codes))
    return NotifyError(f"{server} took no mail ({type(error).__name__}: {said}); check host, port and security")


def _codes(error: Exception) -> list[int]:
    """The server's reply codes: 4xx may be tried again, 5xx may not (RFC 5321, 4.2.1)."""
    if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
        return [each.code for each in error.recipients]
    return [error.code] if isinstance(error, aiosmtplib.SMTPResponseException) and error.code >= 400 else []


def _words(error: Exception) -> str:
    if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
        return "; ".join(f"{each.recipient}: {each.code} {each.message}" for each in error.recipients)
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"{error.code} {error.message}"
    return str(error)
