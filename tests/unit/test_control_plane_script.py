"""The script of the control plane's host: made once, read again, taken down; may be cut; takes nothing of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.kubeadm import SCRIPT
from tests.support.host_scripts import Answer, ScriptHost

WANTED = '{\n "a": 1,\n "kubernetesVersion": "v1.36.3"\n}\n'
TOKEN = "abcdef.0123456789abcdef"


@pytest.fixture
def host(tmp_path: Path) -> ScriptHost:
    return ScriptHost.of(tmp_path, SCRIPT)


def made(host: ScriptHost, mode: str = "init", version: str = "1.36.3", wanted: str = WANTED) -> Answer:
    return host.run(mode, "20", version, stdin=wanted)


def test_it_is_made_once_and_then_only_read(host: ScriptHost) -> None:
    first = made(host)
    assert (first.code, first.out) == (0, "kind: Config\n"), first.said
    assert (host.root / "init.json").read_text() == WANTED
    assert [line.split()[0] for line in host.asked()] == ["init"]
    for mode in ("init", "again"):
        assert made(host, mode).out == "kind: Config\n"
    assert host.asked() == []


def test_an_update_never_makes_a_second_cluster(host: ScriptHost) -> None:
    answer = made(host, "again")
    assert answer.code != 0
    assert "put its old address back" in answer.said
    assert host.asked() == []


@pytest.mark.parametrize("file", ["admin.conf", "kubelet.conf", "manifests/kube-apiserver.yaml"])
@pytest.mark.parametrize("mode", ["init", "reset"])
def test_a_cluster_of_others_is_left_alone(host: ScriptHost, file: str, mode: str) -> None:
    theirs = host.root / "etc/kubernetes" / file
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("theirs")
    answer = made(host, mode)
    assert (answer.code == 0) is (mode == "reset")
    assert theirs.read_text() == "theirs"
    assert host.asked() == []


def test_one_that_was_cut_off_begins_anew(host: ScriptHost) -> None:
    host.trouble(f"[ERROR Port-6443]: in use\njoin with --token {TOKEN}\n")
    failed = made(host)
    assert failed.code != 0
    assert "Port-6443" in failed.said
    assert TOKEN not in failed.said
    assert failed.out == ""
    host.trouble(None)
    host.asked()
    assert made(host).code == 0
    assert [line.split()[0] for line in host.asked()] == ["reset", "init"]


def test_another_setting_is_refused_since_kubeadm_would_not_apply_it(host: ScriptHost) -> None:
    made(host)
    host.asked()
    answer = made(host, "again", wanted=WANTED.replace('"a": 1', '"a": 2'))
    assert answer.code != 0
    assert '"a": 2' in answer.said
    assert made(host, "again").code == 0, "put back, it is right again"
    assert host.asked() == []


def test_a_setting_that_was_taken_out_is_refused_as_well(host: ScriptHost) -> None:
    with_more = WANTED.replace('"a": 1,', '"b": 2,\n "a": 1,')
    made(host, wanted=with_more)
    answer = made(host, "again", wanted=WANTED)
    assert answer.code != 0
    assert '"b": 2' in answer.said


def test_another_release_is_an_upgrade_that_a_person_makes(host: ScriptHost) -> None:
    made(host)
    newer = WANTED.replace("1.36.3", "1.37.0")
    refused = made(host, "again", "1.37.0", newer)
    assert refused.code != 0
    assert "kubeadm upgrade apply v1.37.0" in refused.said
    server = host.root / "etc/kubernetes/manifests/kube-apiserver.yaml"
    server.write_text(server.read_text().replace("1.36.3", "1.37.0"))
    assert made(host, "again", "1.37.0", newer).code == 0


def test_taken_down_it_can_be_made_anew(host: ScriptHost) -> None:
    made(host)
    host.asked()
    for _ in range(2):
        assert host.run("reset", "20", "1.36.3").code == 0
    assert [line.split()[0] for line in host.asked()] == ["reset"]
    assert made(host).code == 0


def test_a_reset_that_failed_is_tried_again(host: ScriptHost) -> None:
    made(host)
    host.trouble("error: unmount failed\n")
    assert host.run("reset", "20", "1.36.3").code != 0
    host.trouble(None)
    host.asked()
    assert host.run("reset", "20", "1.36.3").code == 0
    assert [line.split()[0] for line in host.asked()] == ["reset"]


def test_a_host_without_kubeadm_is_told_so(host: ScriptHost) -> None:
    (host.root / "bin/kubeadm").unlink()
    assert "there is no kubeadm" in made(host).said


def test_what_is_kept_is_for_root_alone(host: ScriptHost) -> None:
    made(host)
    kept = host.root / "etc/sparewheel-control-plane"
    assert {oct(path.stat().st_mode & 0o077) for path in (kept, *kept.iterdir())} == {"0o0"}
