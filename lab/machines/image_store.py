"""The shared image store: every image tar imported and unpacked once, for all hosts to clone.

Nothing is ever removed from it while it is in use (containerd's garbage collection is off): hosts read its layers.
"""

import contextlib
import fcntl
import json
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from lab.cluster.shell import CommandError, run
from lab.machines.guest.images import FROZEN, METADATA, ROOT, SNAPSHOTTER, STAMP
from lab.paths import Paths

START_SECONDS = 60.0
IMPORT_SECONDS = 900.0
CONFIG = """version = 3
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"]
[grpc]
  address = "{state}/containerd.sock"
[plugins.'io.containerd.gc.v1.scheduler']
  deletion_threshold = 0
  mutation_threshold = 1000000
  schedule_delay = "1000h"
  startup_delay = "1000h"
"""


def stamp(tar: Path) -> str:
    """Changes when the tar is written again."""
    status = tar.stat()
    return f"{status.st_size}:{status.st_mtime_ns}"


def changed_tars(paths: Paths) -> list[Path]:
    """Image tars that are not in the store as they are now."""
    known = imported(paths.image_store / FROZEN)
    return [t for t in sorted(paths.image_tars.glob("*.tar")) if known.get(t.name) != stamp(t)]


def stale_tars(paths: Paths, containers: Path) -> list[Path]:
    """Image tars of the store that a host's container store lacks, or has in another version."""
    known = imported(containers)
    wanted = imported(paths.image_store / FROZEN)
    tars = [paths.image_tars / name for name, mark in wanted.items() if known.get(name) != mark]
    return [tar for tar in tars if tar.exists()]


def update_store(paths: Paths) -> list[Path]:
    """Import what changed; returns those tars. CommandError names the tar that can't be imported."""
    paths.image_store.mkdir(parents=True, exist_ok=True)
    with (paths.image_store / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tars = changed_tars(paths)
        if tars:
            _import(paths, tars)
        return tars


def _import(paths: Paths, tars: list[Path]) -> None:
    known = imported(paths.image_store / FROZEN)
    with _containerd(paths) as socket:
        for tar in tars:
            mark = stamp(tar)
            argv = [str(paths.bin / "ctr"), "-a", str(socket), "-n", "k8s.io", "images", "import", str(tar)]
            run(argv, timeout_seconds=IMPORT_SECONDS)
            known[tar.name] = mark
    _freeze(paths.image_store, known)


def imported(folder: Path) -> dict[str, str]:
    """Which tars a store has, by name and stamp."""
    file = folder / STAMP
    return json.loads(file.read_text()) if file.exists() else {}


def _freeze(store: Path, imported: dict[str, str]) -> None:
    part = store / f"{FROZEN}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    shutil.copy2(store / ROOT / SNAPSHOTTER / "metadata.db", part / "metadata.db")
    shutil.copy2(store / ROOT / METADATA / "meta.db", part / "meta.db")
    (part / STAMP).write_text(json.dumps(imported, indent=1))
    shutil.rmtree(store / FROZEN, ignore_errors=True)
    part.rename(store / FROZEN)


@contextlib.contextmanager
def _containerd(paths: Paths) -> Iterator[Path]:
    """A containerd over the store for as long as the context lasts."""
    paths.image_store.mkdir(parents=True, exist_ok=True)
    paths.run.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="store-", dir=paths.run) as state:
        config = Path(state) / "config.toml"
        config.write_text(CONFIG.format(root=paths.image_store / ROOT, state=state))
        socket = Path(state) / "containerd.sock"
        log = paths.image_store / "containerd.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", str(paths.bin / "containerd"), f"--config={config}"],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            deadline = time.monotonic() + START_SECONDS
            while not socket.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise CommandError(f"containerd over the image store did not start; see {log}")
                time.sleep(0.05)
            yield socket
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
