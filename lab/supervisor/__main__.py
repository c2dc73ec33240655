"""`python -m lab.supervisor RUN_FOLDER`."""

import asyncio
import sys
from pathlib import Path

from lab.supervisor.daemon import Daemon


def main() -> None:
    """Run until a shutdown request or SIGTERM; SIGTERM leaves the units running for the next supervisor to adopt."""
    asyncio.run(Daemon(Path(sys.argv[1])).run())


main()
