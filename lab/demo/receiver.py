"""Where notifications arrive in the demo and in tests: an HTTP server that keeps what it got.

`python -m lab.demo.receiver` prints each message until Ctrl-C.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lab.machines.inventory import MACHINE_IP, ONCALL_PORT


@dataclass(slots=True)
class Message:
    path: str
    key: str
    body: dict[str, Any]
    received_at: datetime


@dataclass(slots=True)
class Inbox:
    """Messages in the order of arrival; a repeat with a known idempotency key is kept apart."""

    messages: list[Message] = field(default_factory=list[Message])
    repeats: int = 0
    refuse_next: int = 0
    """Answer this many requests with HTTP 503 first."""
    arrived: threading.Event = field(default_factory=threading.Event)

    def of(self, event: str) -> list[Message]:
        return [message for message in self.messages if message.body.get("event") == event]


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], inbox: Inbox, file: Path | None) -> None:
        super().__init__(address, _Handler)
        self.inbox = inbox
        self.file = file
        self.lock = threading.Lock()

    def take(self, message: Message) -> bool:
        with self.lock:
            if self.inbox.refuse_next > 0:
                self.inbox.refuse_next -= 1
                return False
            if any(known.key == message.key for known in self.inbox.messages):
                self.inbox.repeats += 1
                return True
            self.inbox.messages.append(message)
            if self.file is not None:
                with self.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"receivedAt": message.received_at.isoformat(), **message.body}) + "\n")
            self.inbox.arrived.set()
            return True


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))) or b"{}")
        key = self.headers.get("Idempotency-Key", "")
        taken = self.server.take(Message(self.path, key, body, datetime.now(UTC)))
        self.send_response(204 if taken else 503)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it so)
        """The story has its own output."""


@contextmanager
def receiver(address: str, port: int, file: Path | None = None) -> Iterator[Inbox]:
    """Serve until left. Raises OSError when the port is in use."""
    inbox = Inbox()
    server = _Server((address, port), inbox, file)
    thread = threading.Thread(target=server.serve_forever, name="notification-receiver", daemon=True)
    thread.start()
    try:
        yield inbox
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def arriving(inbox: Inbox) -> Iterator[Message]:
    """Each message as it comes, without an end."""
    given = 0
    while True:
        inbox.arrived.wait()
        inbox.arrived.clear()
        new = inbox.messages[given:]
        given += len(new)
        yield from new


def main() -> None:
    """Until Ctrl-C."""
    where = f"{MACHINE_IP}:{ONCALL_PORT}"
    try:
        with receiver(MACHINE_IP, ONCALL_PORT) as inbox:
            print(
                f"listening on {MACHINE_IP}:{ONCALL_PORT}; what nobody took so far comes within five minutes",
                flush=True,
            )
            for message in arriving(inbox):
                body = message.body
                print(f"{message.received_at:%H:%M:%S} {body.get('event', '')}: {body.get('title', '')}")
                print(f"  {body.get('text', '')}", flush=True)
    except OSError as error:
        sys.exit(
            f"error: {where} can't be listened on ({error.strerror}); is the data centre up "
            "(make lab-status), and does no demo or other receiver run?"
        )
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
