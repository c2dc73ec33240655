"""What `down` should have removed and is still there."""

import socket
from pathlib import Path

from lab.machines.inventory import BRIDGE
from lab.paths import Paths


def leftovers(paths: Paths) -> list[str]:
    """Folders, mounts, interfaces and processes of the data centre, as short phrases."""
    places = (str(paths.state), str(paths.run))
    found = [f"folder {place}" for place in places if Path(place).exists()]
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    found += [f"mount {target}" for target in mounted if target.startswith(places)]
    names = [name for _, name in socket.if_nameindex()]
    found += [f"interface {name}" for name in names if name == BRIDGE or name.startswith("sw-")]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (text := _daemon_of_ours(entry, paths, places)):
            found.append(f"process {entry.name} ({text[:80]})")
    return found


def _daemon_of_ours(entry: Path, paths: Paths, places: tuple[str, ...]) -> str:
    """The command line of a process that the data centre started, else nothing."""
    try:
        argv = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    text = " ".join(argv).strip()
    built = argv[0].startswith(str(paths.bin)) and any(place in text for place in places)
    module = argv[2] if argv[1:2] == ["-m"] and len(argv) > 2 else ""
    beside = module.startswith("lab.machines.") and str(paths.run).encode() in _environment(entry)
    ours = built or beside or f"-m lab.supervisor {paths.run}" in text
    return text if ours else ""


def _environment(entry: Path) -> bytes:
    try:
        return (entry / "environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
