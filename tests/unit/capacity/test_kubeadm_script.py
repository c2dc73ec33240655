"""The script of a host that joins or leaves: repeated, cut off, refused where it would take a control plane down."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparewheel.capacity.backends import kubeadm
from tests.support.host_scripts import Answer, ScriptHost

TOKEN = "abcdef.0123456789abcdef"
SCRIPT = Path(kubeadm.__file__).with_name("kubeadm_host.sh")


@pytest.fixture
def host(tmp_path: Path) -> ScriptHost:
    return ScriptHost.of(tmp_path, SCRIPT)


def join(host: ScriptHost, mark: str = "one") -> Answer:
    return host.run("join", "20", "unix:///x.sock", mark, stdin=f'{{"token": "{TOKEN}"}}')


def leave(host: ScriptHost) -> Answer:
    return host.run("leave", "20", "unix:///x.sock")


def verbs(host: ScriptHost) -> list[str]:
    return [" ".join(line.split()[:2]) if line.startswith("systemctl") else line.split()[0] for line in host.asked()]


def test_a_bare_host_joins_and_keeps_no_token(host: ScriptHost) -> None:
    answer = join(host)
    assert answer.code == 0, answer.said
    assert TOKEN in (host.root / "join.json").read_text(), "kubeadm got it"
    (host.root / "join.json").unlink()
    files = [path for path in host.root.rglob("*") if path.is_file() and "bin" not in path.parts]
    kept = [path.read_text(errors="replace") for path in files]
    assert TOKEN not in "".join(kept)
    assert verbs(host) == ["join"]


def test_the_same_join_again_only_lets_it_register_anew(host: ScriptHost) -> None:
    join(host)
    host.asked()
    assert join(host).code == 0
    assert verbs(host) == ["systemctl is-active", "systemctl restart"]


@pytest.mark.parametrize("change", ["another mark", "kubelet is down", "cut off"])
def test_an_old_identity_is_taken_off_first(host: ScriptHost, change: str) -> None:
    join(host)
    if change == "kubelet is down":
        (host.root / "kubelet").unlink()
    if change == "cut off":
        (host.root / "etc/kubernetes/sparewheel-joined").unlink()
    host.asked()
    assert join(host, "two" if change == "another mark" else "one").code == 0
    assert [verb for verb in verbs(host) if not verb.startswith("systemctl")] == ["reset", "join"]


def test_a_join_that_fails_says_why_and_leaves_the_host_bare(host: ScriptHost) -> None:
    host.trouble(f"[ERROR Port-10250]: Port 10250 is in use\nerror: token {TOKEN}\n")
    answer = join(host)
    assert answer.code != 0
    assert answer.out == ""
    last = answer.said.strip().splitlines()[-1]
    assert "kubeadm join did not succeed" in last
    assert "Port 10250 is in use" in last
    assert TOKEN not in answer.said
    assert verbs(host) == ["join", "reset"]
    assert not list((host.root / "run").glob("sparewheel-join*"))


def test_leaving_may_be_repeated(host: ScriptHost) -> None:
    join(host)
    host.asked()
    assert leave(host).code == 0
    assert verbs(host) == ["reset"]
    assert leave(host).code == 0
    assert verbs(host) == [], "there is nothing more to take off"


def test_a_host_on_which_pods_live_on_has_not_left(host: ScriptHost) -> None:
    join(host)
    group = host.root / "sys/fs/cgroup/pids/kubepods/pod1"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text("4711\n")
    answer = leave(host)
    assert answer.code != 0
    assert "4711" in answer.said
    (group / "cgroup.procs").write_text("")
    assert leave(host).code == 0


@pytest.mark.parametrize("mode", ["join", "leave"])
def test_a_control_plane_is_never_reset(host: ScriptHost, mode: str) -> None:
    server = host.root / "etc/kubernetes/manifests/kube-apiserver.yaml"
    server.parent.mkdir()
    server.write_text("it")
    answer = join(host) if mode == "join" else leave(host)
    assert answer.code != 0
    assert "control plane host" in answer.said
    assert host.asked() == []


def test_a_host_without_kubeadm_is_told_so(host: ScriptHost) -> None:
    (host.root / "bin/kubeadm").unlink()
    assert "there is no kubeadm" in join(host).said
