"""What the machine itself must bring: root, Debian, Go. Each look says what is missing and how to get it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from lab.toolchain.errors import ToolchainError

GO_AT_LEAST = (1, 26)
DEBIAN_AT_LEAST = 12
_GO_PLACES = (Path("/usr/local/go/bin/go"), Path("/usr/lib/go-1.26/bin/go"), Path("/usr/lib/go/bin/go"))


def require_root() -> None:
    """Network namespaces, mounts and packages are root's."""
    if os.geteuid() != 0:
        raise ToolchainError(
            "The data centre needs root, for its network namespaces, mounts and packages: "
            "run the same command with sudo."
        )


def require_debian(os_release: Path = Path("/etc/os-release")) -> None:
    """Debian 12 or newer; testing and unstable carry no number and are newer."""
    fields = _os_release(os_release)
    name = fields.get("PRETTY_NAME", "this system")
    version = fields.get("VERSION_ID", "")
    if fields.get("ID") != "debian" or (version and int(version.split(".")[0]) < DEBIAN_AT_LEAST):
        raise ToolchainError(
            f"The data centre needs Debian {DEBIAN_AT_LEAST} or newer and this machine runs {name}: "
            f"use a machine or a virtual machine with Debian {DEBIAN_AT_LEAST} or newer."
        )


def _os_release(path: Path) -> dict[str, str]:
    try:
        text = path.read_text()
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: value.strip().strip('"') for key, value in pairs}


def known_go() -> Path | None:
    """Go as it is found on the PATH or in its usual places, of whatever version."""
    found = shutil.which("go")
    return Path(found) if found else next((place for place in _GO_PLACES if place.exists()), None)


def find_go() -> str:
    """The path of a Go that is new enough."""
    how = "get it from the Go website or your distribution, put it on the PATH and run the same command again."
    wanted = ".".join(map(str, GO_AT_LEAST))
    place = known_go()
    if place is None:
        raise ToolchainError(f"Go {wanted} or newer is needed to build the tools and isn't on the PATH: {how}")
    found = str(place)
    said = subprocess.run(
        [found, "version"], capture_output=True, text=True, check=False, env={**os.environ, "GOTOOLCHAIN": "local"}
    ).stdout
    match = re.search(r"go(\d+)\.(\d+)", said)
    if match is None:
        raise ToolchainError(f"{found} doesn't say its version ({said.strip() or 'no output'}): {how}")
    if (int(match[1]), int(match[2])) < GO_AT_LEAST:
        raise ToolchainError(f"Go {wanted} or newer is needed to build the tools and {found} is {match[0]}: {how}")
    return found
