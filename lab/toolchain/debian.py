"""Debian packages that the data centre uses as they are; installed only where they are missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lab.toolchain import progress
from lab.toolchain.machine import require_root
from lab.toolchain.process import run

PACKAGES = (
    "busybox-static",  # the pods of the data centre's own tests
    "ca-certificates",  # go, pip and debootstrap over TLS
    "conntrack",  # kube-proxy drops stale flows with it
    "debootstrap",  # the images' root file systems, without Docker
    "iproute2",  # bridge, veth pairs, network namespaces
    "mount",  # what it says
    "nftables",  # kube-proxy's and the CNI plugins' rules
    "openssh-client",  # ssh to the login node and to hosts
    "openssh-server",  # the sshd of each host; the machine's own is left as it is
    "procps",  # ps and pgrep, where a host is looked at
    "python3",  # process 1 of each host and its commands, whatever Python runs this
    "runc",  # built with seccomp, which a plain Go build has not
    "util-linux",  # nsenter, unshare, mount
)
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
"""Programs that can look at a page; the first that is there is used, and none is installed where there is one."""
BROWSER = (
    "chromium-headless-shell",  # looks at the pages that the command line writes
    "fonts-dejavu-core",  # letters to look at
)
SSHD_NOT_TO_BE_RUN = Path("/etc/ssh/sshd_not_to_be_run")
EXPECTED_SECONDS = 60.0


def missing(packages: tuple[str, ...]) -> list[str]:
    """Those of `packages` that dpkg doesn't have installed."""
    said = subprocess.run(
        ["dpkg-query", "-W", "-f", "${binary:Package} ${db:Status-Status}\n", *packages],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    installed = {line.split()[0].split(":")[0] for line in said.splitlines() if line.endswith(" installed")}
    return [package for package in packages if package not in installed]


def ensure(packages: tuple[str, ...] = PACKAGES) -> None:
    """Install what is missing, and nothing else."""
    absent = missing(packages)
    if not absent:
        return
    require_root()
    doing = f"installing the Debian packages {' '.join(absent)}"
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if "openssh-server" in absent:
        _keep_sshd_off()
    with progress.step(doing.capitalize(), EXPECTED_SECONDS):
        run(["apt-get", "update", "-qq"], "reading Debian's package lists", env=env)
        run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *absent], doing, env=env)


def ensure_browser() -> None:
    """Nothing where a browser is on the PATH, whoever installed it."""
    if find_browser() is None:
        ensure(BROWSER)


def find_browser() -> str | None:
    """The first of the browsers that is there, with its folder."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def ensure_venv_module() -> None:
    """Debian ships Python without `ensurepip`; a virtual environment needs it."""
    if importlib.util.find_spec("ensurepip") is None:
        ensure((f"python3.{sys.version_info.minor}-venv",))


def _keep_sshd_off() -> None:
    """Debian starts sshd on install. Where there was none, the machine's own stays off: only the hosts run one."""
    SSHD_NOT_TO_BE_RUN.parent.mkdir(parents=True, exist_ok=True)
    SSHD_NOT_TO_BE_RUN.touch()
