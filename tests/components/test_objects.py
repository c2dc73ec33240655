"""Single objects of the stack: the fields that healing depends on."""

from __future__ import annotations

from typing import Any

import pytest

from components.slurm_conf import slurm_conf
from stacks.slurm import InClusterDatabase, Slurm
from tests.components.conftest import SECRETS, Run, crusoe_backend


def test_a_worker_outlives_its_jobs_grace(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["slurm"]["grace_seconds"] = 45
    pod = run_stack(raw).one(":NodeSet").inputs["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > 45


def test_with_cold_spares_a_worker_goes_to_active_nodes_of_its_pool_only(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["pools"][0]["warm_spares"] = False
    pod = run_stack(raw).one(":NodeSet").inputs["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"sparewheel.dev/pool": "gpu", "sparewheel.dev/role": "active"}
    assert not any(t["key"].startswith("sparewheel.dev/") for t in pod["tolerations"])


def test_a_stack_that_says_nothing_has_a_worker_for_each_spare_and_all_register_drained(
    run_stack: Run, raw: dict[str, Any]
) -> None:
    size, spares = raw["pools"][0]["size"], raw["pools"][0]["spares"]
    assert spares > 0
    stack = run_stack(raw)
    spec = stack.one(":NodeSet").inputs["spec"]
    assert spec["replicas"] == size + spares
    assert spec["extraConf"] == "Gres=gpu:8 State=DRAIN Reason=sparewheel:registered"
    pod = spec["template"]["spec"]
    assert pod["nodeSelector"] == {"sparewheel.dev/pool": "gpu"}
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    roles = {"key": "sparewheel.dev/role", "operator": "In", "values": ["active", "spare"]}
    assert terms == [{"matchExpressions": [roles]}]
    ours = [t for t in pod["tolerations"] if t["key"].startswith("sparewheel.dev/")]
    assert ours == [{"key": "sparewheel.dev/spare", "operator": "Equal", "value": "warm", "effect": "NoSchedule"}]
    pool = stack.one(":GpuPool").inputs["spec"]
    assert (pool["size"], pool["spares"], pool["warmSpares"]) == (size, spares, True)


@pytest.mark.parametrize(
    ("spares", "asked", "kept"),
    [
        (1, {}, True),
        (0, {}, False),
        (1, {"warm_spares": False}, False),
        (1, {"warm_spares": True}, True),
        (0, {"warm_spares": True}, True),  # workers need not be made again once there is a spare
    ],
)
def test_spares_are_warm_where_there_are_any_and_the_stack_says_nothing_else(
    run_stack: Run, raw: dict[str, Any], spares: int, asked: dict[str, bool], *, kept: bool
) -> None:
    raw["pools"][0] |= {"spares": spares, **asked}
    stack = run_stack(raw)
    assert stack.one(":GpuPool").inputs["spec"]["warmSpares"] is kept
    node_set = stack.one(":NodeSet").inputs["spec"]
    assert node_set["replicas"] == raw["pools"][0]["size"] + (spares if kept else 0)
    assert ("State=DRAIN" in node_set["extraConf"]) == kept, "without warm spares a worker waits for no controller"


def test_a_worker_has_the_nodes_gpus(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["pools"][0]["gpus_per_node"] = 4
    node_set = run_stack(raw).one(":NodeSet").inputs["spec"]
    assert node_set["slurmd"]["resources"]["limits"]["nvidia.com/gpu"] == 4
    assert node_set["extraConf"].split(" ")[0] == "Gres=gpu:4"


def test_an_agent_stays_on_a_tainted_node(run_stack: Run, raw: dict[str, Any]) -> None:
    pod = run_stack(raw).one(":DaemonSet").inputs["spec"]["template"]["spec"]
    tolerated = {t["key"] for t in pod["tolerations"]}
    assert {f"sparewheel.dev/{key}" for key in ("joining", "spare", "fault", "quarantined")} <= tolerated
    assert pod["hostPID"] is True
    assert pod["nodeSelector"] == {"sparewheel.dev/pool": "gpu"}


def test_what_must_outlive_a_gpu_node_keeps_off_it(run_stack: Run, raw: dict[str, Any]) -> None:
    stack = run_stack(raw)
    pods = [
        stack.one(kind, name).inputs["spec"]["template"]["spec"]
        for kind, name in (
            (":Controller", "slurm"),
            (":RestApi", "slurm"),
            (":Accounting", "slurm"),
            (":LoginSet", "login"),
            (":StatefulSet", "mariadb"),
            (":Deployment", "sparewheel-controller"),
        )
    ]
    for pod in pods:
        terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert terms == [{"matchExpressions": [{"key": "sparewheel.dev/pool", "operator": "DoesNotExist"}]}]


def test_the_pool_as_the_cluster_sees_it(run_stack: Run, raw: dict[str, Any]) -> None:
    stack = run_stack(raw)
    spec = stack.one(":GpuPool").inputs["spec"]
    assert spec["backend"]["keyRef"] == {"name": "sparewheel-credentials", "key": "machines-ssh"}
    assert spec["backend"]["power"]["keyRef"] == {"name": "sparewheel-credentials", "key": "power-ssh"}
    assert spec["nodeSetRef"] == {"namespace": "slurm", "name": "gpu"}
    assert stack.one("PoolCapacity").inputs["spec"] == spec


@pytest.mark.parametrize(
    ("warm", "test", "expected"),
    [
        (False, {}, None),
        (True, {"enabled": False}, None),
        (True, {}, {"enabled": True, "cold": False, "command": "", "timeoutSeconds": 30}),
        (
            False,
            {"cold": True, "command": "dcgmi diag -r 1", "timeout_seconds": 120},
            {"enabled": True, "cold": True, "command": "dcgmi diag -r 1", "timeoutSeconds": 120},
        ),
    ],
)
def test_warm_spares_are_tested_and_cold_ones_where_the_stack_says_so(
    run_stack: Run, raw: dict[str, Any], warm: bool, test: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    raw["pools"][0] |= {"warm_spares": warm, "spare_test": test}
    assert run_stack(raw).one(":GpuPool").inputs["spec"].get("spareTest") == expected


def test_slurm_conf(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["slurm"] |= {"grace_seconds": 30, "extra_conf": ["SlurmdTimeout=60"], "scheduler_parameters": ["defer"]}
    conf = dict(
        line.split("=", 1)
        for line in run_stack(raw).one(":Controller", "slurm").inputs["spec"]["extraConf"].splitlines()
    )
    assert conf["KillWait"] == "30"
    assert conf["ReturnToService"] == "1"
    assert "enable_expedited_requeue" in conf["SlurmctldParameters"].split(",")
    assert {"enable_configless", "reconfig_on_restart"} <= set(conf["SlurmctldParameters"].split(","))
    assert {"defer", "batch_sched_delay=1"} <= set(conf["SchedulerParameters"].split(","))
    assert conf["SlurmdTimeout"] == "60"


def test_a_user_s_own_pace_of_scheduling_stands_alone() -> None:
    """Slurm reads the first of two."""
    slurm = Slurm(
        version="26.05",
        scheduler_parameters=["batch_sched_delay=10"],
        accounting=InClusterDatabase(kind="in_cluster"),
    )
    assert slurm_conf(slurm).count("batch_sched_delay") == 1
    assert "batch_sched_delay=10" in slurm_conf(slurm)


def test_accounts(run_stack: Run, raw: dict[str, Any]) -> None:
    stack = run_stack(raw)
    files = stack.one(":ConfigMap", "slurm-users").inputs["data"]
    assert files["passwd"] == "alice:x:20001:20001::/home/alice:/bin/bash\n"
    assert files["group"] == "alice:x:20001:\nresearch:x:30001:alice\n"
    assert stack.one(":ConfigMap", "slurm-user-keys").inputs["data"]["alice"].startswith("ssh-ed25519 ")


def test_a_folder_of_accounts_is_mounted_whole(run_stack: Run, raw: dict[str, Any]) -> None:
    """kubelet never renews a file mounted by subPath: a new user would need a restart, and that ends jobs."""
    stack = run_stack(raw)
    for kind, field in ((":NodeSet", "slurmd"), (":LoginSet", "login"), (":Controller", "slurmctld")):
        found = stack.one(kind, None if kind == ":NodeSet" else field.replace("slurmctld", "slurm"))
        mounts = [m for m in found.inputs["spec"][field]["volumeMounts"] if m["mountPath"] == "/var/lib/extrausers"]
        assert len(mounts) == 1, kind
        assert "subPath" not in mounts[0], kind


def test_gpus_are_detected_unless_files_are_named(run_stack: Run, raw: dict[str, Any]) -> None:
    del raw["slurm"]["gpu_files"]
    assert run_stack(raw).one(":ConfigMap", "slurm-extra").inputs["data"]["gres.conf"] == "AutoDetect=nvidia\n"


def test_gpus_by_files(run_stack: Run, raw: dict[str, Any]) -> None:
    gres = run_stack(raw).one(":ConfigMap", "slurm-extra").inputs["data"]["gres.conf"]
    assert gres == "AutoDetect=off\nName=gpu File=/dev/nvidia[0-7]\n"


@pytest.mark.parametrize("kind", ["ClusterIP", "NodePort", "LoadBalancer"])
def test_ways_to_the_login_nodes(run_stack: Run, raw: dict[str, Any], kind: str) -> None:
    raw["login"]["service"] = {"type": kind, "address": "login.example"}
    assert run_stack(raw).one(":Service", "login-ssh").inputs["spec"]["type"] == kind


def test_a_database_of_ones_own(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["slurm"]["accounting"] = {"kind": "external", "host": "db.example", "password_secret": "machines-ssh"}
    del raw["storage"]["database"]
    stack = run_stack(raw)
    assert stack.of_type(":StatefulSet") == []
    assert stack.one(":Accounting", "slurm").inputs["spec"]["storageConfig"]["host"] == "db.example"


def test_the_operator_from_its_charts(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["operator"] = {"kind": "charts", "version": "1.2.1"}
    charts = {r.name: r.inputs for r in run_stack(raw).of_type(":Chart")}
    assert charts["operator"]["chart"] == "oci://ghcr.io/slinkyproject/charts/slurm-operator"
    assert charts["operator-crds"]["chart"] == "oci://ghcr.io/slinkyproject/charts/slurm-operator-crds"
    assert charts["operator"]["version"] == charts["operator-crds"]["version"] == "1.2.1"


def test_the_routes_as_the_cluster_sees_them(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["users"][0].update(email="a.liddell@example.org", slack="U012AB3CD")
    raw["remediation"]["routes"] += [
        {
            "name": "owners",
            "kind": "email",
            "audience": "owner",
            "host": "mail.example",
            "username": "wheel",
            "password_secret": "mail-password",
            "from_address": "wheel@example.com",
            "owner_address": "{user}@example.com",
        },
        {"name": "pager", "kind": "pagerduty", "routing_key_secret": "pager-key", "severities": ["critical"]},
    ]
    secrets = {**SECRETS, "mail-password": "CANARY-mail", "pager-key": "CANARY-pager"}
    stack = run_stack(raw, secrets)
    policy = stack.one(":RemediationPolicy").inputs["spec"]
    assert policy["people"] == {"alice": {"email": "a.liddell@example.org", "slack": "U012AB3CD"}}
    hook, owners, pager = policy["routes"]
    assert hook["urlRef"] == {"name": "sparewheel-credentials", "key": "oncall-url"}
    assert owners["passwordRef"] == {"name": "sparewheel-credentials", "key": "mail-password"}
    assert (owners["ownerAddress"], owners["security"], owners["groupSeconds"]) == (
        "{user}@example.com",
        "starttls",
        10,
    )
    assert pager["routingKeyRef"] == {"name": "sparewheel-credentials", "key": "pager-key"}
    assert pager["url"] == "https://events.pagerduty.com/v2/enqueue"
    assert "CANARY" not in str(policy)
    assert stack.one(":Secret", "sparewheel-credentials").inputs["stringData"] == secrets


@pytest.mark.parametrize("node_actions", [True, False])
def test_nodes_are_mended_only_where_they_have_a_helper(
    run_stack: Run, raw: dict[str, Any], node_actions: bool
) -> None:
    raw["remediation"]["agent"] = {"node_actions": node_actions}
    stack = run_stack(raw)
    rungs = [
        {"kind": "reset_gpu", "timeoutSeconds": 180},
        {"kind": "reboot", "timeoutSeconds": 900},
    ]
    ladder = stack.one(":RemediationPolicy").inputs["spec"]["ladder"]
    assert ladder["rungs"] == (rungs if node_actions else [])
    assert "ladder" not in stack.one(":GpuPool").inputs["spec"], "as in the whole stack"
    containers = stack.one(":DaemonSet").inputs["spec"]["template"]["spec"]["containers"]
    assert ("helper" in [container["name"] for container in containers]) == node_actions


def test_a_ladder_without_helpers_is_the_capacity_backends(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["pools"][0]["backend"] = crusoe_backend()
    raw["remediation"]["ladder"] = {"rungs": ["reboot"]}
    policy = run_stack(raw).one(":RemediationPolicy").inputs["spec"]
    assert policy["nodeHelpers"] is False
    assert policy["ladder"]["rungs"] == [{"kind": "reboot", "timeoutSeconds": 900}]


def test_a_pool_with_a_ladder_of_its_own(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["remediation"] |= {"agent": {"node_actions": True}, "ladder": {"mended": {"count": 1, "window_seconds": 3600}}}
    raw["pools"][0]["ladder"] = {"rungs": ["reboot"], "reboot_seconds": 1800}
    stack = run_stack(raw)
    policy = stack.one(":RemediationPolicy").inputs["spec"]["ladder"]
    assert (policy["mendedCount"], policy["mendedWindowSeconds"]) == (1, 3600)
    pool = stack.one(":GpuPool").inputs["spec"]
    assert pool["ladder"]["rungs"] == [{"kind": "reboot", "timeoutSeconds": 1800}]
    assert stack.one("PoolCapacity").inputs["spec"] == pool
