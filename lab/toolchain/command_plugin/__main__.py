"""`pulumi-resource-command ENGINE_ADDRESS`: the engine's plugin for commands."""

from __future__ import annotations

import sys

from pulumi.runtime.proto import provider_pb2_grpc

from lab.toolchain.command_plugin.servicer import CommandProvider
from policies.pack.serving import serve

WORKERS = 64


def main() -> int:
    """Serve until the engine ends this process."""
    addresses = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    provider = CommandProvider(addresses[0] if addresses else "")
    return serve(lambda to: provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, to), workers=WORKERS)


if __name__ == "__main__":
    sys.exit(main())
