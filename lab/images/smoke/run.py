"""Start the small cluster in namespaces of its own, and run the checks in it."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.images.ensure import namespaced
from lab.images.recipes import REPOSITORY
from lab.images.smoke.checks import run_checks
from lab.images.smoke.cluster import Cluster, SmokeError
from lab.images.store import Store


def run_smoke(keep: bool) -> int:
    """Run the checks in a child with its own network, mounts and processes; its exit code."""
    argv = [*namespaced(), "--net", sys.executable, "-m", "lab.images", "smoke-inside", *(["--keep"] if keep else [])]
    return subprocess.run(argv, cwd=REPOSITORY, check=False).returncode


def smoke_inside(store: Store, keep: bool) -> int:
    """The child's part: 0 when every check passed. With `keep` it waits for Ctrl-C before it ends the cluster."""
    with tempfile.TemporaryDirectory(prefix="sparewheel-smoke-") as folder:
        cluster = Cluster(store, Path(folder))
        try:
            cluster.make_nodes()
            run_checks(cluster)
            if keep:
                print(f"It stays up in {folder} until Ctrl-C.", flush=True)
                signal.pause()
        except (SmokeError, subprocess.SubprocessError) as error:
            print(f"{cluster.logs()}\nFAILED: {error}", file=sys.stderr, flush=True)
            return 1
        except KeyboardInterrupt:
            return 130
        finally:
            cluster.stop()
            subprocess.run(["umount", "--recursive", "--lazy", folder], check=False, capture_output=True)
    return 0
