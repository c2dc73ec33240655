"""The data centre behaves as a real one: nodes join and leave, pods run, names resolve, power goes and comes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.cluster.lifecycle import DataCentre
from lab.machines.inject import Bite, inject_xid
from lab.machines.inventory import MACHINE_IP, Inventory
from lab.machines.pause import write_docker_archive
from tests.lab.conftest import Kubectl
from tests.lab.machine import Machine
from tests.lab.waiting import eventually

IMAGE = "sparewheel.local/busybox:test"
TAINT = "example.com/joining=true:NoSchedule"
JOIN = f"host-join --node-name {{}} --label example.com/pool=a --taint {TAINT}"


@pytest.fixture(scope="module", autouse=True)
def busybox(data_centre: DataCentre) -> None:
    """A small image with a shell, on every host."""
    tar = data_centre.paths.image_tars / "busybox-test.tar"
    if not tar.exists():
        files = {"bin/busybox": Path("/bin/busybox").read_bytes()}
        write_docker_archive(tar, IMAGE, files, ["/bin/busybox", "sleep", "3600"])
    data_centre.import_images()


@pytest.fixture
def joined(clean_data_centre: DataCentre, machine: Callable[[str], Machine]) -> Machine:
    """gpu-1, joined with a label and a taint."""
    host = machine("gpu-1")
    host.check(JOIN.format("gpu-1"))
    return host


def node(kubectl: Kubectl, name: str) -> dict[str, Any]:
    """The Node object, empty when there is none."""
    text = kubectl("get", "node", name, "-o", "json", "--ignore-not-found")
    return json.loads(text) if text else {}


def is_ready(kubectl: Kubectl, name: str) -> bool:
    conditions = node(kubectl, name).get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def gpus(kubectl: Kubectl, name: str) -> str:
    return node(kubectl, name).get("status", {}).get("allocatable", {}).get("nvidia.com/gpu", "0")


def pod(name: str, gpu_count: int, node_name: str | None = None) -> str:
    container: dict[str, Any] = {"name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent"}
    if gpu_count:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpu_count)}}
    spec: dict[str, Any] = {
        "containers": [container],
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
    }
    if node_name:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node_name}
    metadata = {"name": name, "labels": {"app": name}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def run_pod(kubectl: Kubectl, namespace: str, manifest: str) -> str:
    """Create a pod and wait until it is ready; returns its name."""
    name = json.loads(manifest)["metadata"]["name"]
    kubectl("-n", namespace, "apply", "-f", "-", stdin=manifest)
    kubectl("-n", namespace, "wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s", timeout_seconds=70)
    return name


def test_system_host_is_a_ready_node(data_centre: DataCentre, kubectl: Kubectl) -> None:
    assert is_ready(kubectl, "sys-1")


def test_hosts_look_like_machines_of_their_own(inventory: Inventory, machine: Callable[[str], Machine]) -> None:
    hosts = [machine(h.name) for h in inventory.hosts]
    assert [h.check("hostname") for h in hosts] == [h.name for h in inventory.hosts]
    for path in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id", "/etc/ssh/ssh_host_ed25519_key.pub"):
        assert len({h.text(path) for h in hosts}) == len(hosts), path
    gpu_host = machine("gpu-1")
    assert gpu_host.is_device("/dev/nvidia7")
    assert not machine("sys-1").exists("/dev/nvidia0")
    assert gpu_host.check("cat /proc/1/comm") == "python3"
    assert not gpu_host.exists("/var/lib/sparewheel-lab")


def test_common_disk_is_common(clean_data_centre: DataCentre, machine: Callable[[str], Machine]) -> None:
    machine("gpu-1").check("echo hello > /srv/common/greeting")
    assert machine("gpu-2").text("/srv/common/greeting") == "hello\n"
    machine("gpu-2").check("rm /srv/common/greeting")


def test_a_gpu_host_joins_tainted_and_runs_a_pod_with_all_gpus(
    joined: Machine, kubectl: Kubectl, namespace: str
) -> None:
    eventually(lambda: gpus(kubectl, "gpu-1") == "8", 30, lambda: f"gpu-1 offers {gpus(kubectl, 'gpu-1')} GPUs")
    shown = node(kubectl, "gpu-1")
    assert {"key": "example.com/joining", "value": "true", "effect": "NoSchedule"} in shown["spec"]["taints"]
    assert shown["metadata"]["labels"]["example.com/pool"] == "a"
    assert shown["spec"]["providerID"] == "machines://gpu-1"
    assert shown["status"]["nodeInfo"]["bootID"] == joined.text("/proc/sys/kernel/random/boot_id").strip()
    name = run_pod(kubectl, namespace, pod("trainer", 8))
    inside = kubectl("-n", namespace, "exec", name, "--", "/bin/busybox", "ls", "/dev")
    assert [f"nvidia{n}" in inside.split() for n in range(8)] == [True] * 8


def test_names_services_exec_and_logs_work_from_a_pod(joined: Machine, kubectl: Kubectl, namespace: str) -> None:
    server = json.loads(pod("web", 0, "gpu-1"))
    server["spec"]["containers"][0]["command"] = ["/bin/busybox", "sh", "-c"]
    script = "echo started; /bin/busybox mkdir /w; echo hello > /w/index.html; exec /bin/busybox httpd -f -p 80 -h /w"
    server["spec"]["containers"][0]["args"] = [script]
    run_pod(kubectl, namespace, json.dumps(server))
    kubectl("-n", namespace, "expose", "pod", "web", "--port=80")
    run_pod(kubectl, namespace, pod("client", 0, "sys-1"))
    server_name = f"web.{namespace}.svc.cluster.local"

    def fetch() -> str:
        script = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | /bin/busybox nc -w 3 {server_name} 80 || true"
        return kubectl("-n", namespace, "exec", "client", "--", "/bin/busybox", "sh", "-c", script)

    eventually(lambda: fetch().endswith("\nhello\n"), 20, lambda: f"the service answered {fetch()!r}")
    assert kubectl("-n", namespace, "logs", "web") == "started\n"
    looked_up = kubectl(
        "-n", namespace, "exec", "client", "--", "/bin/busybox", "nslookup", "kubernetes.default.svc.cluster.local"
    )
    assert "10.96.0.1" in looked_up


def test_a_host_that_left_is_as_new(joined: Machine, kubectl: Kubectl, namespace: str) -> None:
    run_pod(kubectl, namespace, pod("doomed", 0, "gpu-1"))
    joined.check("host-leave")
    assert not joined.run("pgrep -x kubelet; pgrep -x kube-proxy; pgrep -f containerd-shim").stdout
    assert joined.check("ls /var/lib/kubelet /var/lib/cni /var/log/pods | grep -v : || true").strip() == ""
    assert IMAGE in joined.check("ctr -n k8s.io images ls -q")
    joined.check("host-leave")
    kubectl("delete", "node", "gpu-1")
    joined.check(JOIN.format("gpu-1"))
    eventually(lambda: is_ready(kubectl, "gpu-1"), 30, lambda: "gpu-1 did not become Ready again")


def test_joining_under_another_name_is_refused(
    clean_data_centre: DataCentre, machine: Callable[[str], Machine]
) -> None:
    refused = machine("gpu-1").run("host-join --node-name gpu-2")
    assert refused.exit_code == 2
    assert "certificate stands for gpu-1" in refused.stderr


def switch(centre: DataCentre, command: str) -> subprocess.CompletedProcess[str]:
    argv = ["ssh", "-F", str(centre.paths.ssh / "config"), "power", command]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_power_cycle_by_the_switch_gives_a_new_boot_and_the_node_comes_back(
    joined: Machine, clean_data_centre: DataCentre, kubectl: Kubectl
) -> None:
    eventually(lambda: is_ready(kubectl, "gpu-1"), 30, lambda: "gpu-1 is not Ready")
    before = node(kubectl, "gpu-1")["status"]["nodeInfo"]["bootID"]
    assert switch(clean_data_centre, "off gpu-1").stdout == "off\n"
    assert switch(clean_data_centre, "status gpu-1").stdout == "off\n"
    assert clean_data_centre.power.is_on(next(h for h in clean_data_centre.hosts() if h.name == "gpu-2"))
    assert switch(clean_data_centre, "on gpu-1").stdout == "on\n"

    def boot_id() -> str:
        return node(kubectl, "gpu-1")["status"]["nodeInfo"]["bootID"]

    eventually(lambda: boot_id() != before and is_ready(kubectl, "gpu-1"), 40, lambda: "gpu-1 did not come back")
    assert boot_id() == joined.text("/proc/sys/kernel/random/boot_id").strip()


def test_the_switch_takes_nothing_but_its_commands(data_centre: DataCentre) -> None:
    for command in ("cat /etc/shadow", "on", "on gpu-1; id", "on nowhere"):
        answer = switch(data_centre, command)
        assert answer.returncode == 1, command
        assert answer.stdout == ""
    other_key = str(data_centre.paths.ssh / "id_ed25519")
    argv = ["ssh", "-F", "/dev/null", "-i", other_key, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-p", "2222"]
    known = f"UserKnownHostsFile={data_centre.paths.ssh / 'known_hosts'}"
    refused = subprocess.run(
        [*argv, "-o", known, f"power@{MACHINE_IP}", "status gpu-1"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 255
    assert "Permission denied" in refused.stderr


def test_a_crashed_host_stays_off(clean_data_centre: DataCentre, inventory: Inventory) -> None:
    host = inventory.host("gpu-3")
    clean_data_centre.power.crash(host)
    eventually(lambda: not clean_data_centre.power.is_on(host), 5, lambda: "gpu-3 is still on")
    clean_data_centre.up()
    assert not clean_data_centre.power.is_on(host)
    clean_data_centre.power.on(host)
    assert clean_data_centre.power.is_on(host)


def test_up_respects_that_a_system_host_was_switched_off(clean_data_centre: DataCentre, inventory: Inventory) -> None:
    host = inventory.host("sys-1")
    clean_data_centre.power.off(host)
    clean_data_centre.up()
    assert not clean_data_centre.power.is_on(host)
    clean_data_centre.reset()
    assert clean_data_centre.power.is_on(host)


def test_a_silent_fault_is_a_kernel_record(
    clean_data_centre: DataCentre, inventory: Inventory, machine: Callable[[str], Machine]
) -> None:
    done = inject_xid(clean_data_centre.paths, inventory.host("gpu-2"), 79, 3, Bite.SILENT)
    last = machine("gpu-2").text("/var/log/kmsg").splitlines()[-1]
    assert last + "\n" == done.record
    priority, text = last.split(",")[0], last.split(";", 1)[1]
    assert int(priority) >> 3 == 0
    assert text.startswith("NVRM: Xid (PCI:0000:4e:00): 79,")
    assert text.endswith("GPU has fallen off the bus.")
    assert machine("gpu-2").exists("/dev/nvidia3")


@pytest.mark.parametrize(("bite", "states"), [(Bite.CRASH, set[str]()), (Bite.HANG, {"T"})])
def test_a_fault_bites_only_the_ranks_on_its_gpu(
    clean_data_centre: DataCentre, inventory: Inventory, machine: Callable[[str], Machine], bite: Bite, states: set[str]
) -> None:
    host = machine("gpu-2")
    start = (
        "for r in 0 1; do env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_GPUS=0,1,2,3 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 "
        "setsid sleep 300 >/dev/null 2>&1 & echo $!; done"
    )
    struck, spared = host.check(start).split()

    def state(pid: str) -> str:
        return host.run(f"ps -o state= -p {pid}").stdout.strip()

    try:
        inject_xid(clean_data_centre.paths, inventory.host("gpu-2"), 79, 2, bite)
        eventually(
            lambda: ({state(struck)} - {""}) == states, 5, lambda: f"the rank on GPU 2 is in state {state(struck)!r}"
        )
        assert state(spared) == "S"
        assert host.exists("/dev/nvidia2") is (bite is not Bite.CRASH)
    finally:
        host.run(f"kill -KILL {struck} {spared}")  # else its agent sees a job there for as long as they sleep
    clean_data_centre.reset()
    assert host.exists("/dev/nvidia2")


def test_a_lost_device_is_taken_out_of_service(
    joined: Machine, clean_data_centre: DataCentre, inventory: Inventory, kubectl: Kubectl
) -> None:
    eventually(lambda: gpus(kubectl, "gpu-1") == "8", 30, lambda: f"gpu-1 offers {gpus(kubectl, 'gpu-1')} GPUs")
    inject_xid(clean_data_centre.paths, inventory.host("gpu-1"), 79, 0, Bite.CRASH)
    eventually(lambda: gpus(kubectl, "gpu-1") == "7", 30, lambda: f"gpu-1 offers {gpus(kubectl, 'gpu-1')} GPUs")
