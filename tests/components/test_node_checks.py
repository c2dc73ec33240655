"""Slurm's checks of a node: the scripts reach slurmctld and the workers, the mark reaches both sides."""

from __future__ import annotations

from typing import Any

from components.node_checks import SCRIPT
from tests.components.conftest import Run


def conf_of(controller: dict[str, Any]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in controller["extraConf"].splitlines())


def test_off_by_default_but_a_failed_prolog_never_holds_a_job(run_stack: Run, raw: dict[str, Any]) -> None:
    stack = run_stack(raw)
    controller = stack.one(":Controller", "slurm").inputs["spec"]
    assert "epilogScriptRefs" not in controller
    assert "HealthCheckProgram" not in conf_of(controller)
    assert "nohold_on_prolog_fail" in conf_of(controller)["SchedulerParameters"].split(",")
    assert not [m.name for m in stack.of_type(":ConfigMap") if "node-checks" in m.name]


def test_the_scripts_reach_slurm(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["slurm"]["node_checks"] = True
    stack = run_stack(raw)
    controller = stack.one(":Controller", "slurm").inputs["spec"]
    files: list[str] = []
    for field in ("prologScriptRefs", "epilogScriptRefs"):
        (ref,) = controller[field]
        data = stack.one(":ConfigMap", ref["name"]).inputs["data"]
        assert set(data.values()) == {SCRIPT.read_text()}
        files += data
    assert len(set(files)) == 2, "all land in one folder"


def test_the_health_check_is_mounted_where_slurm_looks(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["slurm"]["node_checks"] = True
    stack = run_stack(raw)
    conf = conf_of(stack.one(":Controller", "slurm").inputs["spec"])
    node_set = stack.one(":NodeSet").inputs["spec"]
    mounts = {mount["name"]: mount for mount in node_set["slurmd"]["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in node_set["template"]["spec"]["volumes"]}
    program = volumes["node-checks"]["configMap"]
    (file,) = stack.one(":ConfigMap", program["name"]).inputs["data"]
    assert f"{mounts['node-checks']['mountPath']}/{file}" == conf["HealthCheckProgram"]
    assert int(program["defaultMode"]) & 0o111
    assert program["optional"] is True, "a worker starts without the checks too"
    assert mounts["node-state"]["readOnly"] is True


def test_worker_and_agent_see_the_same_folder(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["slurm"]["node_checks"] = True
    stack = run_stack(raw)
    worker = stack.one(":NodeSet").inputs["spec"]
    agent = stack.one(":DaemonSet").inputs["spec"]["template"]["spec"]
    (of_worker,) = [v for v in worker["template"]["spec"]["volumes"] if v["name"] == "node-state"]
    (of_agent,) = [v for v in agent["volumes"] if v["name"] == "node-state"]
    assert of_worker["hostPath"] == of_agent["hostPath"] == {"path": "/run/sparewheel", "type": "DirectoryOrCreate"}
    (mount,) = [m for m in agent["containers"][0]["volumeMounts"] if m["name"] == "node-state"]
    assert mount["mountPath"] == "/run/sparewheel"
    assert mount["readOnly"] is False


def test_in_a_dry_run_slurm_drains_nothing(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["pools"][0]["dry_run"] = True
    agent = run_stack(raw).one(":DaemonSet").inputs["spec"]["template"]["spec"]
    assert "--dry-run" in agent["containers"][0]["command"]


def test_the_helper_is_off_unless_the_stack_says_so(run_stack: Run, raw: dict[str, Any]) -> None:
    containers = run_stack(raw).one(":DaemonSet").inputs["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in containers] == ["agent"]


def test_the_helper_stands_beside_the_agent(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["remediation"]["agent"] = {"node_actions": True}
    pod = run_stack(raw).one(":DaemonSet").inputs["spec"]["template"]["spec"]
    (helper,) = [one for one in pod["containers"] if one["name"] == "helper"]
    assert helper["securityContext"]["privileged"] is True
    assert {mount["name"] for mount in helper["volumeMounts"]} == {"host", "node-state"}
    assert pod["hostPID"] is True
