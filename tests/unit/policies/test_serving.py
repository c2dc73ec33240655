"""The engine's plugins as the engine starts them: the port is printed, the service answers, SIGTERM ends it well."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import analyzer_pb2_grpc, provider_pb2_grpc

ROOT = Path(__file__).resolve().parents[3]
PACK = [str(ROOT / "policies/pack/__main__.py")]
COMMAND = ["-m", "lab.toolchain.command_plugin", "127.0.0.1:1"]


@contextmanager
def started(arguments: list[str]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    with subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True) as plugin:
        assert plugin.stdout is not None
        try:
            yield plugin, int(plugin.stdout.readline())
        finally:
            plugin.kill()


@pytest.mark.parametrize(
    ("arguments", "stub"),
    [(PACK, analyzer_pb2_grpc.AnalyzerStub), (COMMAND, provider_pb2_grpc.ResourceProviderStub)],
    ids=["policies", "command"],
)
def test_a_plugin_prints_its_port_answers_and_ends(
    arguments: list[str], stub: type[analyzer_pb2_grpc.AnalyzerStub | provider_pb2_grpc.ResourceProviderStub]
) -> None:
    with started(arguments) as (plugin, port):
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            ask: Any = stub(channel)
            assert ask.GetPluginInfo(empty_pb2.Empty(), timeout=20).version
        plugin.terminate()
        assert plugin.wait(20) == 0
