"""How a plugin of the engine serves: gRPC on a free port of the loopback address, which it prints, until its end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent import futures
from types import FrameType
from typing import Final

import grpc

LARGEST_MESSAGE_BYTES: Final = 400 * 1024 * 1024
STOP_SECONDS: Final = 1.0


def serve(add_to: Callable[[grpc.Server], None], *, workers: int) -> int:
    """``add_to`` puts the service into the server. Returns the exit status once the engine ends this process."""
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=workers),
        options=[("grpc.max_receive_message_length", LARGEST_MESSAGE_BYTES)],
    )
    add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    stop = threading.Event()

    def ended(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ended)
    signal.signal(signal.SIGINT, ended)
    stop.wait()
    server.stop(grace=STOP_SECONDS)
    return 0
