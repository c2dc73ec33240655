"""`python3 -m lab.toolchain`: set up a profile, and run a command in it.

run PROFILE -- COMMAND...   set up PROFILE, then become COMMAND with the tools on its PATH
env                         print shell lines that put the tools on the PATH
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this very check is what tells the user
    sys.exit(
        "Python 3.11 or newer is needed and this is "
        + ".".join(str(number) for number in sys.version_info[:2])
        + ": install it and run `make PYTHON=python3.11 ...`."
    )

import argparse
import errno
import os
import shlex
import shutil
import signal
from types import FrameType

from lab.toolchain import environment, setup, venv
from lab.toolchain.errors import ToolchainError
from lab.toolchain.paths import cache_folder
from lab.toolchain.tools import PROFILES


def main() -> int:
    """Parse, set up, and become the command. Errors are one sentence on standard error."""
    arguments = _arguments()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, _interrupt)
    try:
        if arguments.what == "env":
            for name, value in {**environment.variables(venv.folder()), **environment.cluster()}.items():
                print(f"export {name}={shlex.quote(value)}")
            return 0
        folder = setup.ensure(arguments.profile)
    except ToolchainError as error:
        print(f"Set-up stopped: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EACCES, errno.EROFS):
            raise
        print(
            f"Set-up stopped: {error.strerror} at {error.filename or cache_folder()}. "
            "Point SPAREWHEEL_CACHE to a folder with 12 GB of space and run it again.",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("Set-up stopped by you; nothing half done was kept. Run it again to go on from here.", file=sys.stderr)
        return 130
    env = {**os.environ, **environment.variables(folder)}
    command: list[str] = arguments.command
    program = shutil.which(command[0], path=env["PATH"])
    if program is None:
        print(f"There is no program {command[0]} on the PATH.", file=sys.stderr)
        return 127
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, signal.SIG_DFL)
    os.execve(program, command, env)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m lab.toolchain", description="Set up what the project needs.")
    kinds = parser.add_subparsers(dest="what", required=True)
    running = kinds.add_parser("run", help="set up a profile, then run a command in it")
    running.add_argument("profile", choices=sorted(PROFILES))
    running.add_argument("command", nargs="+")
    kinds.add_parser("env", help="print shell lines that put the tools on the PATH")
    return parser.parse_args()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Stop once: an impatient second Ctrl-C must not cut the cleaning up short."""
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, _no_more)
    raise KeyboardInterrupt


def _no_more(_number: int, _frame: FrameType | None) -> None:
    return


if __name__ == "__main__":
    sys.exit(main())
