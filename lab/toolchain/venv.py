"""The virtual environment, made from hash-pinned requirements and keyed by them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import site
import sys
from pathlib import Path

from lab.toolchain import debian, progress
from lab.toolchain.errors import ToolchainError
from lab.toolchain.paths import REQUIREMENTS, cache_folder
from lab.toolchain.process import run

EXPECTED_SECONDS = 60.0
_DONE = ".complete"


def folder() -> Path:
    """Where the virtual environment for the pins of this checkout and this Python lies."""
    digest = hashlib.sha256(sys.version.encode())
    digest.update((REQUIREMENTS / "dev.txt").read_bytes())
    return cache_folder() / f"venv-{digest.hexdigest()[:12]}"


def is_ready() -> bool:
    """Whether it was made to its end."""
    return (folder() / _DONE).exists()


def ensure() -> Path:
    """Make the virtual environment unless it is there, and let this process import from it."""
    target = folder()
    if not is_ready():
        debian.ensure_venv_module()
        with progress.step("Making the Python virtual environment", EXPECTED_SECONDS):
            _make(target)
    site.addsitedir(str(target / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"))
    return target


def _make(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    doing = "making the Python virtual environment"
    try:
        run([sys.executable, "-m", "venv", str(target)], doing)
        python = str(target / "bin" / "python")
        uv_only = target / "uv.txt"
        uv_only.write_text(_pin_of("uv"))
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes"]
        run([*pip, "-r", str(uv_only)], doing)
        pins = str(REQUIREMENTS / "dev.txt")
        try:
            env = {**os.environ, "UV_LINK_MODE": "copy"}
            uv = [str(target / "bin" / "uv"), "pip", "install", "-q", "--python", python, "--require-hashes"]
            run([*uv, "-r", pins], doing, env=env)
        except ToolchainError:
            # pip follows an index that was set up for pip alone, and says best what is wrong.
            run([*pip, "-r", pins], doing)
        (target / _DONE).touch()
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _pin_of(name: str) -> str:
    """The lines of dev.txt that pin one package with its hashes."""
    text = (REQUIREMENTS / "dev.txt").read_text()
    match = re.search(rf"^{re.escape(name)}==.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    if match is None:
        raise ToolchainError(f"requirements/dev.txt has no pin for {name}: run `make requirements`.")
    return match[0]
