"""Images of a control plane that kubeadm makes, packed from the programs that are built here; there is no registry."""

from __future__ import annotations

import re
from pathlib import Path

from lab.cluster.shell import run
from lab.machines.pause import write_docker_archive
from lab.paths import Paths
from lab.toolchain.tools import KUBERNETES_VERSION

REPOSITORY = "sparewheel.local"
ETCD_TAG = "3.7.3-0"
DNS_TAG = "v1.14.7"
PAUSE_TAG = "3.10.2"
"""The one that kubeadm 1.36 asks for; a sandbox here is made of the runtime's own."""
STATIC = {
    "kube-apiserver": f"v{KUBERNETES_VERSION}",
    "kube-controller-manager": f"v{KUBERNETES_VERSION}",
    "kube-scheduler": f"v{KUBERNETES_VERSION}",
    "etcd": ETCD_TAG,
}
NFT = Path("/usr/sbin/nft")


def folder(paths: Paths) -> Path:
    """Apart from the images of the data centre, whose hosts need none of these."""
    return paths.cache / "rack-images"


def make_images(paths: Paths) -> list[Path]:
    """The tars, made where their programs are newer."""
    folder(paths).mkdir(parents=True, exist_ok=True)
    tars = [
        _image(paths, name, tag, {f"usr/local/bin/{name}": paths.bin / name}, [f"/usr/local/bin/{name}"])
        for name, tag in STATIC.items()
    ]
    tars.append(_image(paths, "coredns", DNS_TAG, {"coredns": paths.bin / "coredns"}, ["/coredns"]))
    tars.append(_image(paths, "pause", PAUSE_TAG, {"pause": paths.bin / "pause"}, ["/pause"]))
    proxy = {_inside(path): path for path in _with_libraries(NFT)}
    proxy["usr/local/bin/kube-proxy"] = paths.bin / "kube-proxy"
    tars.append(_image(paths, "kube-proxy", f"v{KUBERNETES_VERSION}", proxy, ["/usr/local/bin/kube-proxy"]))
    return tars


def _image(paths: Paths, name: str, tag: str, files: dict[str, Path], entrypoint: list[str]) -> Path:
    tar = folder(paths) / f"{name}.tar"
    newest = max(path.resolve().stat().st_mtime for path in files.values())
    if tar.exists() and tar.stat().st_mtime >= newest:
        return tar
    part = tar.with_suffix(".part")
    content = {inside: path.read_bytes() for inside, path in files.items()}
    write_docker_archive(part, f"{REPOSITORY}/{name}:{tag}", content, entrypoint)
    part.rename(tar)
    return tar


def _with_libraries(program: Path) -> list[Path]:
    """A program of this machine and the libraries that it is linked to."""
    linked = run(["ldd", str(program)])
    return [program, *(Path(found) for found in re.findall(r"(/\S+) \(0x", linked))]


def _inside(path: Path) -> str:
    return str(path).lstrip("/")
