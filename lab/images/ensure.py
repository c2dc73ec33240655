"""Make sure that the image archives are there and of today's recipes."""

from __future__ import annotations

import subprocess
import sys

from lab.images.build import diff_ids, is_current
from lab.images.catalogue import ARCHIVES
from lab.images.recipes import REPOSITORY
from lab.images.store import Store
from lab.paths import Paths
from lab.toolchain.errors import ToolchainError
from lab.toolchain.machine import require_root


def outdated(store: Store) -> list[str]:
    """Names of archives that are missing or made from other recipes or sources."""
    ids = diff_ids(store)
    return [archive.name for archive in ARCHIVES if not is_current(store, archive, ids)]


def ensure_images(paths: Paths) -> bool:
    """Build what is missing; True when something was. ToolchainError when it can't be done, already said in the output.

    The work is done by a child in its own mount and process namespace: however it ends, no mount or process is left.
    """
    store = Store.of(paths)
    if not outdated(store):
        return False
    require_root()
    done = subprocess.run([*namespaced(), sys.executable, "-m", "lab.images", "build"], cwd=REPOSITORY, check=False)
    if done.returncode != 0:
        raise ToolchainError("The images could not be built; the reason is above. Run the same command again to go on.")
    return True


def namespaced() -> list[str]:
    """Prefix of a command that gets its own mounts and processes, all of which end with it."""
    return ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child=TERM", "--mount-proc"]
