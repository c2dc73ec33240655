#!/usr/bin/env python3
"""The engine's analyzer plugin: serves on a free port of the loopback address and prints the port."""

from __future__ import annotations

import signal
import sys
import threading
from concurrent import futures
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import grpc
from pulumi.runtime.proto import analyzer_pb2_grpc

from policies.judge import NAMES
from policies.pack.analyzer import Analyzer
from policies.settings import FILE, SettingsError, load

LARGEST_MESSAGE_BYTES = 400 * 1024 * 1024


def main() -> int:
    """Serve until the engine ends this process."""
    try:
        settings = load(FILE, NAMES)
    except SettingsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=4), options=[("grpc.max_receive_message_length", LARGEST_MESSAGE_BYTES)]
    )
    analyzer_pb2_grpc.add_AnalyzerServicer_to_server(Analyzer(settings), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    stop = threading.Event()

    def ended(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ended)
    signal.signal(signal.SIGINT, ended)
    stop.wait()
    server.stop(grace=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
