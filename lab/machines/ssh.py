"""The administrator's keys, the hosts' keys, and an ssh configuration that knows every host."""

import subprocess
from pathlib import Path

from lab.cluster.shell import CommandError, run
from lab.machines.inventory import MACHINE_IP, Inventory
from lab.paths import Paths


def make_key(path: Path, comment: str) -> str:
    """An ed25519 key pair, kept when there; returns the public line."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])
    return path.with_name(path.name + ".pub").read_text().strip()


def make_ssh_files(paths: Paths, inventory: Inventory) -> None:
    """`id_ed25519` (root on hosts), `power_ed25519` (power switch), `known_hosts` and `config` in the ssh folder."""
    make_key(paths.ssh / "id_ed25519", "data-centre-administrator")
    make_key(paths.ssh / "power_ed25519", "data-centre-power")
    known: list[str] = []
    config: list[str] = []
    for host in inventory.hosts:
        public = make_key(paths.host(host.name) / "ssh_host_ed25519_key", host.name).split()
        known.append(f"{host.name},{host.ip} {public[0]} {public[1]}")
        config.append(f"Host {host.name}\n  HostName {host.ip}\n  User root\n  IdentityFile {paths.ssh}/id_ed25519")
    switch = make_key(paths.ssh / "power_host_ed25519", "data-centre-power-switch").split()
    port = inventory.power_port
    known.append(f"[{MACHINE_IP}]:{port} {switch[0]} {switch[1]}")
    key = paths.ssh / "power_ed25519"
    config.append(f"Host power\n  HostName {MACHINE_IP}\n  Port {port}\n  User power\n  IdentityFile {key}")
    config.append(
        f"Host *\n  UserKnownHostsFile {paths.ssh / 'known_hosts'}\n  IdentitiesOnly yes\n  StrictHostKeyChecking yes\n"
        "  BatchMode yes\n  ConnectTimeout 5\n  ServerAliveInterval 5\n  ServerAliveCountMax 2"
    )
    (paths.ssh / "known_hosts").write_text("\n".join(known) + "\n")
    (paths.ssh / "config").write_text("\n".join(config) + "\n")


def ssh_argv(paths: Paths, host: str, command: str) -> list[str]:
    """The command line that runs a command on a host."""
    return ["ssh", "-F", str(paths.ssh / "config"), host, command]


def ssh(paths: Paths, host: str, command: str, timeout_seconds: float = 60) -> str:
    """Run a command on a host as root; CommandError has its output."""
    try:
        done = subprocess.run(
            ssh_argv(paths, host, command), check=False, capture_output=True, text=True, timeout=timeout_seconds
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"'{command}' on {host} took longer than {timeout_seconds:.0f} s") from error
    if done.returncode != 0:
        raise CommandError(
            f"'{command}' on {host} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-1500:]}"
        )
    return done.stdout
