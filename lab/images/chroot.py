"""Root file systems: bootstrapping one, and commands inside one. Mounts live in this process's own namespace."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.toolchain.errors import ToolchainError
from lab.toolchain.process import run

MIRROR_VARIABLE = "SPAREWHEEL_DEBIAN_MIRROR"
_NICE = ("nice", "-n", "10")
_APT = (
    "apt-get", "-q", "-o", "Acquire::Check-Valid-Until=false", "-o", "Acquire::Retries=3",
    "-o", "Acquire::Languages=none",
)  # fmt: skip
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "DEBIAN_FRONTEND": "noninteractive",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_UNWANTED = (
    "/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*",
    "/usr/share/bug/*",
)  # fmt: skip


def mirror() -> str:
    """Where this machine gets its Debian packages from; ToolchainError where it doesn't say."""
    named = os.environ.get(MIRROR_VARIABLE)
    if named:
        return named
    listed = run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"],
        "finding this machine's Debian mirror",
    )
    for line in listed.splitlines():
        if line.startswith(("http://", "https://")) and "security" not in line:
            return line.strip()
    raise ToolchainError(
        f"apt on this machine names no Debian mirror that is reached by HTTP: set {MIRROR_VARIABLE} to one, "
        "as in /etc/apt/sources.list, or run `apt-get update` first."
    )


def bootstrap(suite: str, root: Path, script_folder: Path = Path("/usr/share/debootstrap/scripts")) -> None:
    """The smallest Debian `suite` in the empty folder `root`.

    An older debootstrap doesn't know the name of a newer suite, but how to make it.
    """
    script = [] if (script_folder / suite).exists() else ["sid"]
    source = mirror()
    try:
        run(
            [
                *_NICE,
                "debootstrap",
                "--variant=minbase",
                "--include=ca-certificates",
                suite,
                str(root),
                source,
                *script,
            ],
            f"bootstrapping Debian {suite}",
        )
    except ToolchainError as error:
        error.args = (f"{error} Is the network there? {MIRROR_VARIABLE} names another mirror than this machine's apt.",)
        raise
    rules = "".join(f"path-exclude={pattern}\n" for pattern in _UNWANTED)
    # A build that is cut off is thrown away, so dpkg needn't wait for the disk.
    (root / "etc/dpkg/dpkg.cfg.d/sparewheel").write_text(f"force-unsafe-io\n{rules}")
    # No package starts a daemon while it is installed.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    for pattern in _UNWANTED:
        for path in root.glob(pattern.lstrip("/")):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


@contextlib.contextmanager
def overlay(below: Sequence[Path], upper: Path) -> Iterator[Path]:
    """The folders `below` (lowest first) with `upper` over them, as one writable tree."""
    work, merged = upper.with_name("work"), upper.with_name("merged")
    for folder in (upper, work, merged):
        folder.mkdir(exist_ok=True)
    lower = ":".join(str(path) for path in reversed(below))
    options = f"lowerdir={lower},upperdir={upper},workdir={work},metacopy=off,redirect_dir=off,index=off"
    run(
        ["mount", "-t", "overlay", "overlay", "-o", options, str(merged)],
        f"mounting an overlay over {upper.parent} (it needs a disk that can carry one, such as ext4 or xfs)",
    )
    try:
        yield merged
    finally:
        unmount(merged)


@contextlib.contextmanager
def inside(root: Path) -> Iterator[None]:
    """Make `root` fit to run commands in: /proc, /dev/null and its like, name resolution."""
    mounted: list[Path] = []
    try:
        resolver = root / "etc/resolv.conf"
        if not resolver.exists():
            resolver.touch()
        for source, target, options in (
            ("proc", root / "proc", ["-t", "proc"]),
            ("/dev", root / "dev", ["--rbind"]),
            ("/etc/resolv.conf", resolver, ["--bind"]),
        ):
            run(["mount", *options, source, str(target)], f"mounting {source} into {root}")
            mounted.append(target)
        yield
    finally:
        for target in reversed(mounted):
            unmount(target)


def unmount(target: Path) -> None:
    """Take a mount away, also one that is busy; the namespace ends soon."""
    subprocess.run(["umount", "--recursive", "--lazy", str(target)], check=False, capture_output=True)


def command(root: Path, argv: Sequence[str], doing: str) -> str:
    """Run `argv` in `root`; its output."""
    return run([*_NICE, "chroot", str(root), *argv], doing, env=_ENVIRONMENT)


def install(root: Path, packages: Sequence[str], doing: str) -> None:
    """Install Debian packages, and leave neither lists nor archives behind."""
    command(root, [*_APT, "update"], f"{doing}: reading the package lists")
    command(root, [*_APT, "install", "-y", "--no-install-recommends", *packages], doing)
    command(root, ["sh", "-c", "apt-get clean; rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin"], doing)
