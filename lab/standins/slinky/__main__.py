"""``python -m lab.standins.slinky``: run the operator with a kubeconfig (``KUBECONFIG``), else as a pod."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path

from lab.standins.slinky import kube, operator
from sparewheel.clock import SystemClock


async def _main() -> None:
    given = os.environ.get("KUBECONFIG")
    access = kube.from_kubeconfig(Path(given)) if given else kube.in_cluster()
    serving = asyncio.create_task(
        operator.run(access, SystemClock(), slurmrestd_url=os.environ.get("SLURMRESTD_URL", ""))
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def main() -> None:
    """Entry point; ends cleanly on SIGTERM and Ctrl-C."""
    logging.basicConfig(level=os.environ.get("LOG_LEVEL", "INFO"), format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(_main())


if __name__ == "__main__":
    main()
