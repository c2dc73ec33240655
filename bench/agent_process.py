"""The agent as its pod runs it, with its account's files in FOLDER: ``python -m bench.agent_process FOLDER NODE``.

Imports nothing but the agent, whose memory is measured.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from sparewheel.agent import __main__ as agent
from sparewheel.agent.api import ApiServer


def main() -> int:
    folder = Path(sys.argv[1])
    agent.ApiServer = functools.partial(ApiServer, service_account=folder)  # type: ignore[assignment,misc]
    return agent.main([
        "--node", sys.argv[2], "--host-root", str(folder / "host"), "--kernel-log", "/kmsg",
        "--gpu-source", "device-files", "--node-state", str(folder / "node-state"),
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
