"""Where the data centre keeps things: state (disk), runtime (sockets, pids) and cache (binaries, images)."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Paths:
    """The three root folders; everything else is derived from them."""

    state: Path
    run: Path
    cache: Path

    @property
    def bin(self) -> Path:
        """Binaries; `bin/cni` holds the CNI plugins."""
        return self.cache / "bin"

    @property
    def image_tars(self) -> Path:
        """Images as docker-archive tar files."""
        return self.cache / "images"

    @property
    def image_store(self) -> Path:
        """Images unpacked once; every host's container store is a clone of it."""
        return self.cache / "image-store"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.state / "admin.conf"

    @property
    def pki(self) -> Path:
        """Certificate authority and leaf certificates of the control plane."""
        return self.state / "pki"

    @property
    def ssh(self) -> Path:
        """Administrator's keys, known_hosts and an ssh configuration."""
        return self.state / "ssh"

    @property
    def common(self) -> Path:
        """The common disk, /srv/common on every host."""
        return self.state / "common"

    @property
    def logs(self) -> Path:
        """Logs of the daemons that run beside the hosts."""
        return self.state / "log"

    @property
    def group(self) -> str:
        """Name of the control group above the hosts."""
        return self.run.name

    def host(self, name: str) -> Path:
        """A host's own folder: its disk, its power state."""
        return self.state / "hosts" / name

    def disk(self, name: str) -> Path:
        """What survives a power cycle of that host."""
        return self.host(name) / "disk"


def paths_from_environment() -> Paths:
    """Folders from SPAREWHEEL_LAB_STATE, SPAREWHEEL_LAB_RUN and SPAREWHEEL_CACHE, or their defaults."""
    return Paths(
        state=Path(os.environ.get("SPAREWHEEL_LAB_STATE", "/var/lib/sparewheel-lab")),
        run=Path(os.environ.get("SPAREWHEEL_LAB_RUN", "/run/sparewheel-lab")),
        cache=Path(os.environ.get("SPAREWHEEL_CACHE", "~/.cache/sparewheel")).expanduser(),
    )
