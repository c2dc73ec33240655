"""Wrong config: one error without a traceback, that names every wrong setting and what would be right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from sparewheel.api.names import LABEL_VETO
from tests.components.conftest import KEY, ROOT, SECRETS, Run, crusoe_backend

Change = Callable[[dict[str, Any]], object]


def _machines(raw: dict[str, Any]) -> dict[str, Any]:
    return raw["pools"][0]["backend"]


def _route(raw: dict[str, Any]) -> dict[str, Any]:
    return raw["remediation"]["routes"][0]


def _crusoe(raw: dict[str, Any], **fields: Any) -> None:
    raw["pools"][0]["backend"] = {**crusoe_backend(), **fields}


def _mail(raw: dict[str, Any], **fields: Any) -> None:
    mail = {"name": "mail", "kind": "email", "host": "mail.example", "from_address": "wheel@example.com"}
    raw["remediation"]["routes"].append({**mail, "to": ["oncall@example.com"], **fields})


def _charts(raw: dict[str, Any], **fields: Any) -> None:
    raw["operator"] = {"kind": "charts", "version": "1.2.1", **fields}


def _older_slurm(raw: dict[str, Any]) -> None:
    _charts(raw, version="1.3.0")
    raw["slurm"]["version"] = "25.11"


CASES: list[tuple[str, Change, str, str]] = [
    ("an area is missing", lambda raw: raw.pop("slurm"), "slurm:", "is missing"),
    ("a setting is missing", lambda raw: raw["pools"][0].pop("size"), "pools.0.size:", "GPU nodes that take work"),
    ("a typing error", lambda raw: raw["pools"][0].update(sise=3), "pools.0.sise:", "did you mean size?"),
    ("grace too long", lambda raw: raw["slurm"].update(grace_seconds=121), "slurm.grace_seconds:", "120"),
    ("a string for a number", lambda raw: raw["pools"][0].update(size="two"), "pools.0.size:", "'two'"),
    ("ReturnToService", lambda raw: raw["slurm"].update(extra_conf=["ReturnToService=2"]), "slurm.extra_conf:", "is 1"),
    ("JobRequeue", lambda raw: raw["slurm"].update(extra_conf=["JobRequeue=0"]), "slurm.extra_conf:", "start again"),
    ("KillWait", lambda raw: raw["slurm"].update(extra_conf=["killwait=9"]), "slurm.extra_conf:", "grace_seconds"),
    ("a release as a number", lambda raw: raw["slurm"].update(version=26.05), "slurm.version:", "in quotes"),
    ("old Slurm", lambda raw: raw["slurm"].update(version="24.11"), "slurm.version:", "25.11 or newer"),
    ("unknown kind", lambda raw: raw["operator"].update(kind="chart"), "operator:", "'manifests', 'charts'"),
    ("pool too large", lambda raw: raw["pools"][0].update(size=3), "pools.0:", "need 4 machines"),
    ("pool twice", lambda raw: raw["pools"].append(raw["pools"][0]), "", "pools: gpu is there twice"),
    ("long pool name", lambda raw: raw["pools"][0].update(name="p" * 41), "pools.0.name:", "40"),
    ("no host key", lambda raw: _machines(raw)["machines"][0]["ssh"].pop("host_key"),
     "pools.0.backend.machines.0.ssh.host_key:", "is missing"),
    ("unknown host to replace", lambda raw: raw["pools"][0].update(replace=["gpu-9"]), "pools.0:", "gpu-9"),
    ("veto on our own workers", lambda raw: raw["pools"][0].update(worker_labels={LABEL_VETO: "true"}),
     "pools.0.worker_labels:", "other pods only"),
    ("private key", lambda raw: raw["users"][0].update(ssh_keys=["-----BEGIN OPENSSH PRIVATE KEY-----"]),
     "users.0.ssh_keys:", "the public one"),
    ("source ranges with a NodePort", lambda raw: raw["login"]["service"].update(source_ranges=["198.51.100.0/24"]),
     "login.service:", "work with type LoadBalancer only"),
    ("no network", lambda raw: raw.update(login={"service": {"source_ranges": ["198.51.100.7/24"]}}),
     "login.service.source_ranges.0:", "is no network"),
    ("unknown group", lambda raw: raw["users"][0].update(groups=["staff"]), "", "isn't under groups"),
    ("uid twice", lambda raw: raw["groups"][0].update(gid=20001), "", "20001 is used twice"),
    ("no disk for the database", lambda raw: raw["storage"].pop("database"), "", "storage.database"),
    ("machine in two pools", lambda raw: raw["pools"].append({**raw["pools"][0], "name": "b"}),
     "", "machine gpu-1 is in gpu and in b"),
    ("one address for two machines", lambda raw: _machines(raw)["machines"][1]["ssh"].update(address="192.0.2.1"),
     "", "machines gpu-1 and gpu-2 have one address"),
    ("pools that select the same nodes", lambda raw: raw.update(pools=[
        {"name": name, "size": 1, "backend": {"kind": "warm", "node_selector": labels}}
        for name, labels in (("a", {"class": "x"}), ("b", {"class": "x", "row": "1"}))]),
     "", "a and b select the same nodes"),
    ("setting hidden behind another", lambda raw: raw["slurm"].update(extra_conf=["TaskPlugin=task/none KillWait=9"]),
     "slurm.extra_conf:", "grace_seconds"),
    ("second line in a parameter", lambda raw: raw["slurm"].update(slurmctld_parameters=["x\nKillWait=9"]),
     "slurm.slurmctld_parameters.0:", "pattern"),
    ("our own scheduling", lambda raw: raw["slurm"].update(scheduler_parameters=["requeue_delay=900"]),
     "slurm.scheduler_parameters:", "requeue_delay_seconds"),
    ("override of no fault", lambda raw: raw["remediation"].update(fault_overrides={"xid63": "replace"}),
     "remediation.fault_overrides:", "'XID 63'"),
    ("no pattern of fault codes", lambda raw: raw["remediation"].update(fault_overrides={"XID 6*": "replace"}),
     "remediation.fault_overrides:", "'XID *'"),
    ("action that is none", lambda raw: raw["pools"][0].update(fault_overrides={"XID 63": {"action": "explode"}}),
     "pools.0.fault_overrides.XID 63.action:", "'explode'"),
    ("reboot of a silent host", lambda raw: raw["remediation"].update(fault_overrides={"NODE_LOST": "reboot"}),
     "remediation.fault_overrides:", "choose record, cordon or replace"),
    ("a repeat of one", lambda raw: raw["remediation"].update(fault_overrides={"XID 43": {"repeats": [
        {"count": 1, "window_seconds": 600, "action": "replace"}]}}),
     "remediation.fault_overrides.XID 43.repeats.0.count:", "2"),
    ("a ladder without helpers", lambda raw: raw["remediation"].update(ladder={"reboot_seconds": 600}),
     "", "remediation.ladder: no host has a helper"),
    ("a pool's ladder without helpers", lambda raw: raw["pools"][0].update(ladder={}),
     "", "pools.0.ladder: no host has a helper"),
    ("a reboot that nobody can do", lambda raw: (
        _machines(raw).pop("power"), raw["remediation"].update(ladder={"rungs": ["reboot"]})),
     "", "needs none where a pool's backend can power cycle"),
    ("rungs in the wrong order", lambda raw: raw["remediation"].update(
        agent={"node_actions": True}, ladder={"rungs": ["reboot", "reset_gpu"]}),
     "remediation.ladder.rungs:", "[reset_gpu, reboot]"),
    ("a rung that is none", lambda raw: raw["remediation"].update(ladder={"rungs": ["reimage"]}),
     "remediation.ladder.rungs.0:", "'reset_gpu'"),
    ("no time for a reboot", lambda raw: raw["remediation"].update(ladder={"reboot_seconds": 5}),
     "remediation.ladder.reboot_seconds:", "120"),
    ("host key that is none", lambda raw: _machines(raw)["machines"][0]["ssh"].update(host_key="hello"),
     "pools.0.backend:", "ssh-keyscan"),
    ("host key cut short", lambda raw: _machines(raw)["machines"][0]["ssh"].update(host_key=KEY[:-4]),
     "pools.0.backend:", "cut short"),
    ("user's key of another type", lambda raw: raw["users"][0].update(ssh_keys=[KEY.replace("ssh-ed25519", "ssh-rsa")]),
     "users.0.ssh_keys:", "body is of another type"),
    ("image with a space", lambda raw: raw["images"].update(slurmd="registry.example/slurmd :1"),
     "images.slurmd:", "registry/name:tag"),
    ("true for a size", lambda raw: raw["pools"][0].update(size=True), "pools.0.size:", "integer, not true"),
    ("true for a port", lambda raw: _machines(raw)["machines"][0]["ssh"].update(port=True),
     "pools.0.backend.machines.0.ssh.port:", "integer, not true"),
    ("false for seconds", lambda raw: raw["remediation"].update(agent={"heartbeat_interval_seconds": False}),
     "remediation.agent.heartbeat_interval_seconds:", "number, not false"),
    ("an authority at each up", lambda raw: raw.update(
        operator={"kind": "charts", "version": "1.2.1", "values": {"certManager": {"enabled": False}}}),
     "operator:", "install cert-manager"),
    ("CRDs twice", lambda raw: _charts(raw, values={"crds": {"enabled": True}}), "operator:", "a chart of their own"),
    ("a mistyped value", lambda raw: _charts(raw, values={"webook": {}}), "operator:", "did you mean webhook?"),
    ("an operator that doesn't look", lambda raw: _charts(raw, values={"operator": {"namespaces": ["a"]}}),
     "operator:", "leaves out slurm"),
    ("an older API", lambda raw: _charts(raw, version="0.4.1"), "operator:", "use 1.0.0 or newer"),
    ("Slurm too old for the operator", _older_slurm, "operator.version:", "needs Slurm 26.05"),
    ("no resource of a device plugin", lambda raw: raw["pools"][0].update(worker_resources={"rdma": 1}),
     "pools.0.worker_resources", "pattern"),
    ("no such manifests", lambda raw: raw["operator"].update(path="operatr"), "operator.path:", "no folder with .yaml"),
    ("a folder without manifests", lambda raw: raw["operator"].update(path=str(ROOT / "docs")),
     "operator.path:", "no folder with .yaml"),
    ("selector that is no label", lambda raw: raw["pools"][0].update(
        backend={"kind": "warm", "node_selector": {"class": "h 200"}}, size=1, spares=0),
     "pools.0.backend:", "'class': 'h 200' is no label"),
    ("address that is none", lambda raw: _machines(raw)["machines"][0]["ssh"].update(address="a b"),
     "pools.0.backend:", "no host name or IP address"),
    ("two healers", lambda raw: _crusoe(raw, auto_clusters="on"), "pools.0.backend:", "one healer, never two"),
    ("Crusoe's API in clear", lambda raw: _crusoe(raw, url="http://api.example/v1"), "pools.0.backend:", "https://"),
    ("an id that is none", lambda raw: _crusoe(raw, project_id="default"), "pools.0.backend.project_id:", "pattern"),
    ("a mode that is none", lambda raw: _crusoe(raw, auto_clusters="yes"), "pools.0.backend.auto_clusters:", "detect"),
    ("one node pool in two pools", lambda raw: (_crusoe(raw), raw["pools"].append({**raw["pools"][0], "name": "b"})),
     "", "gpu and b have one node_pool_id"),
    ("power for no machine", lambda raw: _machines(raw)["power"].update(off_command="off all"),
     "pools.0.backend:", "{host}"),
    ("label that is none", lambda raw: raw["pools"][0].update(worker_labels={"team a": "x"}),
     "pools.0.worker_labels.team a", "pattern"),
    ("our own label", lambda raw: raw["pools"][0].update(node_selector={"sparewheel.dev/role": "spare"}),
     "pools.0.node_selector:", "platform's own label"),
    ("pool name that Slurm reads otherwise", lambda raw: raw["pools"][0].update(name="default"),
     "pools.0.name:", "another name"),
    ("user of the images", lambda raw: raw["users"][0].update(name="root"), "", "root is in the images already"),
    ("shell that breaks passwd", lambda raw: raw["users"][0].update(shell="/bin/sh:x"), "users.0.shell:", "pattern"),
    ("lost between two heartbeats", lambda raw: raw["pools"][0].update(node_lost_seconds=5),
     "pools.0.node_lost_seconds:", "15 or more"),
    ("settings left empty", lambda raw: raw["remediation"].update(agent=None), "remediation.agent:", "'name: value'"),
    ("no end of waiting", lambda raw: raw["pools"][0].update(node_lost_seconds=float("inf")),
     "pools.0.node_lost_seconds:", "finite"),
    ("a route of no kind", lambda raw: _route(raw).pop("kind"), "remediation.routes.0:", "kind is missing"),
    ("a route of an unknown kind", lambda raw: _route(raw).update(kind="sms"), "remediation.routes.0:", "'email'"),
    ("two routes of one name", lambda raw: raw["remediation"]["routes"].append(_route(raw)),
     "remediation.routes:", "two routes are named oncall"),
    ("owners alone", lambda raw: _route(raw).update(audience="owner"), "remediation.routes:", "add a route"),
    ("an event that is none", lambda raw: _route(raw).update(events=["opened"]), "remediation.routes.0.events.0:",
     "'detected'"),
    ("a route for an unknown pool", lambda raw: _route(raw).update(pools=["cpu"]), "remediation.routes.0.pools:",
     "no pool cpu"),
    ("a certificate that is a key", lambda raw: _route(raw).update(ca_certificate="BEGIN PRIVATE KEY"),
     "remediation.routes.0.ca_certificate:", "certificate alone"),
    ("a certificate that is none", lambda raw: _route(raw).update(ca_certificate="hello"),
     "remediation.routes.0.ca_certificate:", "in PEM"),
    ("mail to nobody", lambda raw: _mail(raw, to=[]), "remediation.routes.1:", "no receiver"),
    ("an address that is none", lambda raw: _mail(raw, to=["oncall"]), "remediation.routes.1.to.0:", "no mail address"),
    ("owners and receivers", lambda raw: _mail(raw, audience="owner"), "remediation.routes.1:", "leave out to"),
    ("a pattern without a user", lambda raw: _mail(raw, to=[], audience="owner", owner_address="a@b.example"),
     "remediation.routes.1.owner_address:", "{user}"),
    ("a pattern for the platform", lambda raw: _mail(raw, owner_address="{user}@b.example"),
     "remediation.routes.1:", "audience owner"),
    ("a user without a password", lambda raw: _mail(raw, username="w"), "remediation.routes.1:", "go together"),
    ("a password in clear", lambda raw: _mail(raw, username="w", password_secret="oncall-url", security="none"),
     "remediation.routes.1:", "in clear"),
    ("a pager for owners", lambda raw: raw["remediation"]["routes"].append(
        {"name": "p", "kind": "pagerduty", "routing_key_secret": "oncall-url", "audience": "owner"}),
     "remediation.routes.1.audience:", "tell owners by email"),
    ("a pager in clear", lambda raw: raw["remediation"]["routes"].append(
        {"name": "p", "kind": "pagerduty", "routing_key_secret": "oncall-url", "url": "http://x.example"}),
     "remediation.routes.1.url:", "https address"),
    ("a user's address that is none", lambda raw: raw["users"][0].update(email="alice"), "users.0.email:",
     "no mail address"),
    ("a Slack name for an id", lambda raw: raw["users"][0].update(slack="@alice"), "users.0.slack:", "U012AB3CD"),
    ("condition with quotes", lambda raw: raw["remediation"].update(
        node_conditions=[{"type": '"XidCriticalError"', "action": "replace"}]),
     "remediation.node_conditions.0.type:", "write it bare"),
    ("condition of ours", lambda raw: raw["remediation"].update(
        node_conditions=[{"type": "GpuHealthy", "status": "False", "action": "replace"}]),
     "remediation.node_conditions.0.type:", "our agent's own"),
    ("a condition that a healthy node has", lambda raw: raw["remediation"].update(
        node_conditions=[{"type": "DiskPressure", "status": "False", "action": "replace"}]),
     "remediation.node_conditions.0:", "on every healthy node"),
    ("an area mistyped", lambda raw: raw.update(remediaton={"dry_run": True}), "remediaton:", "mean remediation?"),
    ("a setting where areas are", lambda raw: raw.update(grace="30"), "grace:", "'pulumi config set --secret grace'"),
    ("an area mistyped and empty", lambda raw: raw.update(pool=None), "pool:", "did you mean pools?"),
    ("an area that isn't one", lambda raw: raw.update(login=3), "login:", "3"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "path", "says"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_one_error_names_the_setting(run_stack: Run, raw: dict[str, Any], change: Change, path: str, says: str) -> None:
    change(raw)
    with pytest.raises(pulumi.RunError) as caught:
        run_stack(raw)
    text = str(caught.value)
    assert path in text
    assert says in text
    assert text.startswith("one setting is wrong"), text


PASTED = "x" * 40 + "CANARY"
"""What somebody pasted into the wrong place; it may be a secret."""


PASTED_INTO: list[tuple[str, Change]] = [
    ("mail", lambda raw: _mail(raw, to=[PASTED])),
    ("pattern of mail", lambda raw: _mail(raw, to=[], audience="owner", owner_address=PASTED)),
    ("kind", lambda raw: raw["cluster"].update(kind=PASTED)),
    ("network", lambda raw: raw["login"]["service"].update(type="LoadBalancer", source_ranges=[PASTED])),
    ("user", lambda raw: _machines(raw)["machines"][0]["ssh"].update(user=f"{PASTED} ")),
    ("fault", lambda raw: raw["remediation"].update(fault_overrides={PASTED: "replace"})),
    ("label", lambda raw: raw["pools"][0].update(backend={"kind": "warm", "node_selector": {"class": f"{PASTED} "}})),
]


@pytest.mark.parametrize("change", [change for _, change in PASTED_INTO], ids=[name for name, _ in PASTED_INTO])
def test_a_wrong_text_is_never_shown_whole(run_stack: Run, raw: dict[str, Any], change: Change) -> None:
    change(raw)
    with pytest.raises(pulumi.RunError) as caught:
        run_stack(raw)
    assert "xxxx" in str(caught.value)
    assert "CANARY" not in str(caught.value)


def test_all_wrong_settings_at_once(run_stack: Run, raw: dict[str, Any]) -> None:
    raw["slurm"]["grace_seconds"] = 300
    raw["pools"][0]["size"] = -1
    raw["users"][0]["uid"] = 5
    with pytest.raises(pulumi.RunError, match="3 settings are wrong") as caught:
        run_stack(raw)
    assert len(str(caught.value).splitlines()) == 4


def test_a_secret_that_is_not_there(run_stack: Run, raw: dict[str, Any]) -> None:
    with pytest.raises(pulumi.RunError, match=r"pools\.0\.backend\.key_ref: .*pulumi config set --secret machines-ssh"):
        run_stack(raw, {"power-ssh": "x", "oncall-url": "y"})


@pytest.mark.parametrize("given", ["", "  "], ids=["empty", "blank"])
def test_a_secret_that_says_nothing(run_stack: Run, raw: dict[str, Any], given: str) -> None:
    with pytest.raises(pulumi.RunError, match=r"url_secret: the stack has no secret oncall-url"):
        run_stack(raw, {**SECRETS, "oncall-url": given})


def test_a_secret_in_clear(run_stack: Run, raw: dict[str, Any]) -> None:
    with pytest.raises(pulumi.RunError, match=r"oncall-url: .* 'pulumi config set --secret oncall-url'") as caught:
        run_stack({**raw, "oncall-url": "CANARY"}, {key: SECRETS[key] for key in SECRETS if key != "oncall-url"})
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("hello", "it has no clusters, users and contexts"),
        ("[]", "it has no clusters, users and contexts"),
        ("clusters: []", "'current-context' is missing"),
        ("token: CANARY: x", "it is no YAML: mapping values are not allowed here"),
    ],
)
def test_a_kubeconfig_that_is_none(run_stack: Run, raw: dict[str, Any], given: str, says: str) -> None:
    raw["cluster"] = {"kind": "existing", "kubeconfig_secret": "kubeconfig"}
    with pytest.raises(pulumi.RunError) as caught:
        run_stack(raw, {**SECRETS, "kubeconfig": given})
    assert str(caught.value).startswith("what the setting cluster gives is no complete kubeconfig")
    assert says in str(caught.value)
    assert "CANARY" not in str(caught.value)


def test_a_secret_among_settings(run_stack: Run, raw: dict[str, Any]) -> None:
    """The engine decrypts a whole area that holds one secret value; it would be shown with every error."""
    with pytest.raises(pulumi.RunError, match="cluster: holds a secret"):
        run_stack({key: value for key, value in raw.items() if key != "cluster"}, {"cluster": "{}"})
