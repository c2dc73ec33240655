"""A script for a host, run in a folder that stands for its disk, with a kubeadm that writes down what it is asked."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

KUBEADM = """#!/bin/sh
echo "$*" >>{root}/asked
if [ -e {root}/trouble ]; then cat {root}/trouble; exit 1; fi
case $1 in
init) cp "$3" {root}/init.json
    mkdir -p {root}/etc/kubernetes/manifests; echo "kind: Config" >{root}/etc/kubernetes/admin.conf
    echo "    image: registry.example/kube-apiserver:v1.36.3" >{root}/etc/kubernetes/manifests/kube-apiserver.yaml ;;
join) cp "$3" {root}/join.json; touch {root}/etc/kubernetes/kubelet.conf; echo active >{root}/kubelet ;;
reset) rm -rf {root}/etc/kubernetes/*.conf {root}/etc/kubernetes/manifests {root}/kubelet ;;
esac
"""
SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >>{root}/asked
[ -e {root}/kubelet ]
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    said: str


@dataclass(frozen=True)
class ScriptHost:
    """``root`` is the disk; no program but those written here sees the real one's /etc, /var or /run."""

    root: Path
    script: str

    @classmethod
    def of(cls, root: Path, script: Path) -> ScriptHost:
        for folder in ("etc/kubernetes", "var/log", "var/lib/kubelet", "run", "sys/fs/cgroup", "bin"):
            (root / folder).mkdir(parents=True)
        for name, text in (("kubeadm", KUBEADM), ("systemctl", SYSTEMCTL)):
            (root / "bin" / name).write_text(text.format(root=root))
            (root / "bin" / name).chmod(0o755)
        text = script.read_text("utf-8")
        for folder in ("/etc/", "/var/", "/run/", "/sys/"):
            text = text.replace(f"={folder}", f"={root}{folder}").replace(f" {folder}", f" {root}{folder}")
            text = text.replace(f'"{folder}', f'"{root}{folder}').replace(f">>{folder}", f">>{root}{folder}")
        return cls(root, text)

    def run(self, *arguments: str, stdin: str = "") -> Answer:
        done = subprocess.run(
            ["sh", "-c", self.script, "script", *arguments],
            input=stdin,
            env={"PATH": f"{self.root}/bin:/usr/bin:/bin:/usr/sbin:/sbin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def asked(self) -> list[str]:
        """What kubeadm and systemctl were asked since the last time."""
        file = self.root / "asked"
        if not file.exists():
            return []
        lines = file.read_text().splitlines()
        file.unlink()
        return lines

    def trouble(self, text: str | None) -> None:
        """From now on kubeadm says this and fails; None: it works again."""
        (self.root / "trouble").unlink(missing_ok=True)
        if text is not None:
            (self.root / "trouble").write_text(text)
