"""`pulumi-resource-command ENGINE_ADDRESS`: serve on a free port of the loopback address and print the port."""

from __future__ import annotations

import signal
import sys
import threading
from concurrent import futures
from types import FrameType

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from lab.toolchain.command_plugin.servicer import CommandProvider

LARGEST_MESSAGE_BYTES = 400 * 1024 * 1024
WORKERS = 64


def main() -> int:
    """Serve until the engine ends this process."""
    addresses = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=WORKERS),
        options=[("grpc.max_receive_message_length", LARGEST_MESSAGE_BYTES)],
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(CommandProvider(addresses[0] if addresses else ""), server)
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
