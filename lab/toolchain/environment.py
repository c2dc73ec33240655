"""The environment in which the project's programs run: the virtual environment and the tools first on the PATH."""

from __future__ import annotations

import os
from pathlib import Path

from lab.paths import paths_from_environment
from lab.toolchain import machine
from lab.toolchain.paths import REPOSITORY, bin_folder, cache_folder


def variables(venv: Path) -> dict[str, str]:
    """What differs from the caller's environment."""
    first = [str(venv / "bin"), str(bin_folder()), str(REPOSITORY / "bin")]
    rest = [place for place in os.environ.get("PATH", "").split(os.pathsep) if place and place not in first]
    # A user's shell on Debian has no sbin on its PATH, and sudo's has no Go.
    go = machine.known_go()
    rest += [go.parent.as_posix()] if go is not None and go.parent.as_posix() not in rest else []
    rest += [place for place in ("/usr/local/sbin", "/usr/sbin", "/sbin") if place not in rest]
    return {
        "PATH": os.pathsep.join([*first, *rest]),
        "PYTHONPATH": str(REPOSITORY),
        "SPAREWHEEL_CHECKOUT": str(REPOSITORY),
        "VIRTUAL_ENV": str(venv),
        "SPAREWHEEL_CACHE": str(cache_folder()),
        # Empty means that Python keeps what it compiled. Without it every run of Pulumi compiles the SDK several times.
        "PYTHONDONTWRITEBYTECODE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }


def cluster() -> dict[str, str]:
    """The data centre's kubeconfig, while it is up and the caller has no cluster of their own."""
    own = os.environ.get("KUBECONFIG") or (Path.home() / ".kube" / "config").exists()
    lab = paths_from_environment().kubeconfig
    return {"KUBECONFIG": str(lab)} if not own and os.access(lab, os.R_OK) else {}
