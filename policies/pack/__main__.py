#!/usr/bin/env python3
"""The engine's analyzer plugin."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pulumi.runtime.proto import analyzer_pb2_grpc

from policies.judge import NAMES
from policies.pack.analyzer import Analyzer
from policies.pack.serving import serve
from policies.settings import FILE, SettingsError, load

WORKERS = 4


def main() -> int:
    """Serve until the engine ends this process."""
    try:
        settings = load(FILE, NAMES)
    except SettingsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return serve(lambda to: analyzer_pb2_grpc.add_AnalyzerServicer_to_server(Analyzer(settings), to), workers=WORKERS)


if __name__ == "__main__":
    sys.exit(main())
