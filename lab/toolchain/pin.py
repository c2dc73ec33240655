"""Pin requirements/*.txt anew from requirements/*.in: every package by version and hash, without an index address."""

from __future__ import annotations

import subprocess
import sys

from lab.toolchain.paths import REPOSITORY

_COMPILE = [
    "uv", "pip", "compile", "-q", "--upgrade", "--python-version", "3.11", "--generate-hashes",
    "--no-emit-index-url", "--no-header", "--no-annotate",
]  # fmt: skip


def main() -> int:
    """The runtime's pins first; the images' and the tests' follow them."""
    for arguments in (
        ["requirements/runtime.in", "-o", "requirements/runtime.txt"],
        ["requirements/image.in", "-c", "requirements/runtime.txt", "-o", "requirements/image.txt"],
        ["requirements/dev.in", "-c", "requirements/runtime.txt", "-o", "requirements/dev.txt"],
    ):
        subprocess.run([*_COMPILE, *arguments], cwd=REPOSITORY, check=True)
    print("Pinned. The next `make` target makes the virtual environment anew.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
