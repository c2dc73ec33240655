"""Settings that nobody means: each is refused with its path and what would be right, before anything is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stacks.config import ConfigError, StackConfig, parse
from tests.components.conftest import KEY, stack_config

Change = Callable[[dict[str, Any]], object]


def pool(raw: dict[str, Any], **fields: Any) -> None:
    raw["pools"][0].update(fields)


def machines(raw: dict[str, Any]) -> dict[str, Any]:
    return raw["pools"][0]["backend"]


def slurm(raw: dict[str, Any], **fields: Any) -> None:
    raw["slurm"].update(fields)


def disk(raw: dict[str, Any], name: str = "home", **fields: Any) -> None:
    raw["storage"][name].update(fields)


def drill(raw: dict[str, Any], **fields: Any) -> None:
    raw["remediation"].update(agent={"allow_drills": True}, drill={"schedule": "0 9 * * *", **fields})


def database(raw: dict[str, Any], **fields: Any) -> None:
    slurm(raw, accounting={"kind": "external", "host": "db.example", "password_secret": "oncall-url", **fields})


WRONG: list[tuple[str, Change, str, str]] = [
    ("years of draining", lambda r: pool(r, drain_deadline_seconds=10**15),
     "pools.0.drain_deadline_seconds:", "1000000000000000 (too large)"),
    ("a float beyond all", lambda r: pool(r, node_lost_seconds=1e300), "pools.0.node_lost_seconds:", "(too large)"),
    ("a large number as text", lambda r: pool(r, deadline_seconds="9" * 30), "pools.0.deadline", "(too large)"),
    ("a veto for ever", lambda r: r["remediation"].update(veto={"max_seconds": 10**14}),
     "remediation.veto.max_seconds:", "(too large)"),
    ("a time-out of a model of ours", lambda r: machines(r).update(timeout_seconds=1e300),
     "pools.0.backend.timeout_seconds:", "(too large)"),
    ("an amount that no API server holds", lambda r: machines(r)["machines"][0].update(resources={"memory": 10**30}),
     "pools.0.backend.machines.0.resources.memory:", "(too large)"),
    ("digits of another script", lambda r: r["users"][0].update(uid="٢٠٠٠١"), "users.0.uid:", "valid integer"),
    ("memory without a unit", lambda r: pool(r, memory=64), "pools.0.memory:", "write it as 64Gi"),
    ("memory in GB", lambda r: pool(r, memory="64GB"), "pools.0.memory:", "write it as 64Gi"),
    ("millibytes", lambda r: pool(r, memory="64m"), "pools.0.memory:", "write it as 64Gi"),
    ("more memory than there is", lambda r: pool(r, memory="9" * 40 + "Ti"), "pools.0.memory:", "1024Pi"),
    ("no CPU", lambda r: pool(r, cpus="0"), "pools.0.cpus:", "not between"),
    ("bytes of CPU", lambda r: pool(r, cpus="8Gi"), "pools.0.cpus:", "no number of CPUs"),
    ("a volume of nothing", lambda r: disk(r, size="0"), "storage.home.size:", "1Mi"),
    ("a path that climbs", lambda r: disk(r, path="/srv/../etc"), "storage.home.path:", "without . and .."),
    ("the root for a disk", lambda r: disk(r, path="//"), "storage.home.path:", "no folder of its own"),
    ("one folder for two disks", lambda r: disk(r, path="/srv/state/"), "storage:", "a folder of its own"),
    ("a disk inside another", lambda r: disk(r, path="/srv"), "storage:", "(/srv/state) is in the folder of home"),
    ("a folder for a kubeconfig", lambda r: r.update(cluster={"kind": "existing", "kubeconfig_path": "/root/.kube/"}),
     "cluster.kubeconfig_path:", "name the file in it"),
    ("a folder for a kernel log", lambda r: r["remediation"].update(agent={"kernel_log": "/"}),
     "remediation.agent.kernel_log:", "name the file in it"),
    ("a blank command", lambda r: r.update(cluster={"kind": "command", "command": " "}), "cluster.command:", "pattern"),
    ("a file for a secret's name", lambda r: machines(r).update(key_ref="/root/.ssh"),
     "pools.0.backend:", "pulumi config set --secret machines-ssh < FILE"),
    ("a join without taints", lambda r: machines(r).update(join_command="join {node} {labels}"),
     "pools.0.backend:", "write {taints} where that goes"),
    ("a join of nobody", lambda r: machines(r).update(join_command="join {nod} {labels} {taints}"),
     "pools.0.backend:", "write {node}"),
    ("a leave that does nothing", lambda r: machines(r).update(leave_command=" "), "pools.0.backend:", "leave_command"),
    ("no user to reach a machine as", lambda r: machines(r)["machines"][1]["ssh"].update(user="ro ot"),
     "pools.0.backend:", "machine gpu-2: ssh.user 'ro ot'"),
    ("one machine in two spellings", lambda r: [m["ssh"].update(address=a) for m, a in zip(
        machines(r)["machines"], ("gpu.example", "GPU.example.", "192.0.2.9"), strict=True)],
     "", "machines gpu-1 and gpu-2 have one address"),
    ("a label of the operator's", lambda r: pool(r, worker_labels={"app.kubernetes.io/name": "x"}),
     "pools.0.worker_labels:", "Slinky's operator"),
    ("a test that tests nothing", lambda r: pool(r, spare_test={"command": " \n"}),
     "pools.0.spare_test.command:", "pattern"),
    ("a run of 99 seconds to the minute", lambda r: pool(r, partition={"max_time": "1:99"}),
     "pools.0.partition.max_time:", "no time of Slurm's"),
    ("no time to run", lambda r: pool(r, partition={"max_time": "0"}), "pools.0.partition.max_time:", "UNLIMITED"),
    ("jobs saved elsewhere", lambda r: slurm(r, extra_conf=["StateSaveLocation=/tmp"]),
     "slurm.extra_conf:", "every restart would lose the jobs"),
    ("a Slurm setting mistyped", lambda r: slurm(r, extra_conf=["SlurmctldDebg=3"]),
     "slurm: extra_conf:", "did you mean SlurmctldDebug?"),
    ("a Slurm setting that is none", lambda r: slurm(r, extra_conf=["TaskPlugin=task/none", "Frobnicate=1"]),
     "slurm: extra_conf:", "slurmctld 26.05 knows no Frobnicate and would not start"),
    ("another Slurm user", lambda r: slurm(r, extra_conf=["slurmuser=root"]), "slurm.extra_conf:", "the operator"),
    ("a line that takes in the next", lambda r: slurm(r, extra_conf=["TaskProlog=/x\\"]),
     "slurm.extra_conf.0:", "ends with a backslash"),
    ("a database's name with SQL in it", lambda r: database(r, name="x; DROP DATABASE y"),
     "slurm.accounting.name:", "pattern"),
    ("a user of two lines", lambda r: database(r, username="x\ny"), "slurm.accounting.username:", "pattern"),
    ("a database server that is none", lambda r: database(r, host="db example"), "slurm.accounting.host:", "pattern"),
    ("the id of nobody", lambda r: r["users"][0].update(uid=65534), "users.0.uid:", "nobody's id"),
    ("the id of our daemons", lambda r: r["groups"][0].update(gid=65532), "groups.0.gid:", "choose another"),
    ("an account of the images", lambda r: r["users"][0].update(name="backup"), "", "backup is in the images already"),
    ("a drill at 25 o'clock", lambda r: drill(r, schedule="0 25 * * *"),
     "remediation.drill.schedule:", "'25' is no hour: 0 to 23"),
    ("a drill every zero minutes", lambda r: drill(r, schedule="*/0 * * * *"),
     "remediation.drill.schedule:", "no minute"),
    ("a range backwards", lambda r: drill(r, schedule="0 9 * * fri-mon"),
     "remediation.drill.schedule:", "no day of the week"),
    ("a schedule by name", lambda r: drill(r, schedule="@daily"), "remediation.drill.schedule:", "has 1 fields"),
    ("two drills of one pool", lambda r: drill(r, pools=["gpu", "gpu"]), "remediation.drill.pools:", "there twice"),
    ("a control character", lambda r: r["users"][0].update(ssh_keys=[f"{KEY} a\rssh-rsa b"]),
     "users.0.ssh_keys.0:", "control character, '\\r'"),
    ("a NUL in a path", lambda r: disk(r, path="/srv/\0x"), "storage.home.path:", "control character"),
    ("a key of another script", lambda r: pool(r, sizе=2), "pools.0.'siz\\u0435':", "did you mean size?"),
    ("a key with a line break", lambda r: pool(r, **{"si\nze": 2}), "pools.0.'si\\nze':", "did you mean size?"),
    ("a key in two spellings", lambda r: machines(r)["machines"][0]["ssh"].update(hostKey=KEY),
     "pools.0.backend.machines.0.ssh.host_key:", "in two spellings"),
    ("a chart's version with more in it", lambda r: r.update(operator={"kind": "charts", "version": "1.2.1; id"}),
     "operator.version:", "pattern"),
    ("an address of two words", lambda r: r["login"]["service"].update(address="a b"), "login.service.address:", "pat"),
    ("a certificate with comments", lambda r: r["remediation"]["routes"][0].update(
        ca_certificate="# Müller\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"),
     "remediation.routes.0.ca_certificate:", "leave out the comments"),
    ("half a certificate", lambda r: r["remediation"]["routes"][0].update(
        ca_certificate="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"),
     "remediation.routes.0.ca_certificate:", "cut short"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "path", "says"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_one_line_names_the_setting_and_what_would_be_right(change: Change, path: str, says: str) -> None:
    raw = stack_config()
    change(raw)
    with pytest.raises(ConfigError) as caught:
        parse(raw)
    head, *lines = str(caught.value).splitlines()
    assert head == "one setting is wrong in the stack's config:"
    assert len(lines) == 1
    assert lines[0].startswith(f"  {path}")
    assert says in lines[0]


RIGHT: list[tuple[str, Change]] = [
    ("numbers as text", lambda r: pool(r, size="2")),
    ("CPUs without quotes", lambda r: pool(r, cpus=8, memory="1.5Ti")),
    ("half a CPU", lambda r: pool(r, cpus="500m")),
    ("an amount in bytes", lambda r: machines(r)["machines"][0].update(resources={"memory": 2 * 10**12})),
    ("a Slurm setting with a number in its name", lambda r: slurm(r, extra_conf=["X11Parameters=home_xauthority"])),
    ("a Slurm setting in other letters", lambda r: slurm(r, extra_conf=["taskprolog=/x", "Prolog=/y"])),
    ("what another Slurm may know", lambda r: slurm(r, version="25.11", extra_conf=["Frobnicate=1"])),
    ("days and hours", lambda r: pool(r, partition={"max_time": "7-12:30:00"})),
    ("minutes", lambda r: pool(r, partition={"max_time": "90"})),
    ("a drill on weekdays", lambda r: drill(r, schedule="*/20 9-17/2 1,15 Jan-Jun mon-FRI")),
    ("no certificate", lambda r: r["remediation"]["routes"][0].update(ca_certificate="")),
    ("neighbouring folders", lambda r: disk(r, path="/srv/state2")),
]


@pytest.mark.parametrize("change", [case[1] for case in RIGHT], ids=[case[0] for case in RIGHT])
def test_what_one_may_write(change: Change) -> None:
    raw = stack_config()
    change(raw)
    assert isinstance(parse(raw), StackConfig)
