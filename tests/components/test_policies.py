"""The stack keeps its own policies, and every rule notices when the stack breaks it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from policies.allowed import ALL_SECRETS, HOST_ACCESS
from policies.judge import NAMES, judge
from policies.model import Given, Level, Resource
from policies.read import read_file, resource
from policies.rules import RULES
from policies.rules.workloads import host_access
from policies.settings import FILE, Environment, load
from policies.values import spec
from tests.components.conftest import KEY, KUBECONFIG, MANIFESTS, ROOT, SECRETS, Run, production

NOW = datetime(2026, 6, 1, tzinfo=UTC)
GIVEN = Given(now=NOW, production=True, whole=True)
Change = Callable[[list[Resource]], None]


def registered(run_stack: Run, config: dict[str, Any], secrets: dict[str, str] = SECRETS) -> list[Resource]:
    """Every resource of the program, as a state would show it, with the stack's outputs."""
    found = [
        resource({"urn": one.urn, "type": one.type, "inputs": one.wire, "protect": one.protect})
        for one in run_stack(config, secrets).resources
    ]
    outputs = {"kubeconfig": "[secret]", "login": "ssh USER@login.example", "pools": ["gpu"]}
    return [Resource("pulumi:pulumi:Stack", "sparewheel-test", {}, outputs=outputs), *found]


CACHE: list[Resource] = []


@pytest.fixture
def resources(run_stack: Run, raw: dict[str, Any]) -> list[Resource]:
    """A production stack; the program runs once for all tests of this file."""
    if not CACHE:
        CACHE.extend(registered(run_stack, production(raw)))
    return copy.deepcopy(CACHE)


def findings(resources: Sequence[Resource], environment: Environment | None = None, **given: Any) -> list[str]:
    verdict = judge(resources, environment or Environment(), replace(GIVEN, **given))
    return [one.rule for one in verdict.findings if not one.excepted]


def test_a_production_stack_has_no_finding(resources: list[Resource]) -> None:
    assert len(resources) > 50
    assert findings(resources) == []


def config_of(name: str) -> dict[str, Any]:
    """An environment's own file."""
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{name}.yaml").read_text("utf-8"))
    return {key.removeprefix("sparewheel:"): value for key, value in document["config"].items()}


def test_the_example_of_an_environment_is_one_to_follow(run_stack: Run) -> None:
    """Charts are unpacked by the engine alone, so the operator comes from manifests here."""
    config = {**config_of("crusoe"), "operator": {"kind": "manifests", "path": str(MANIFESTS)}}
    secrets = {"kubeconfig": KUBECONFIG, "crusoe-key": "CANARY-c", "oncall-url": "CANARY-url"}
    found = registered(run_stack, config, secrets)
    assert findings(found, load(FILE, NAMES).of("crusoe")) == []


def test_the_small_data_centres_stack_has_no_mandatory_finding(run_stack: Run) -> None:
    """Its own file, with the keys filled in, judged with its own levels and exceptions."""
    config = config_of("lab")
    config["operator"]["path"] = str(MANIFESTS)
    for user in config["users"]:
        user["ssh_keys"] = [KEY]
    for pool in config["pools"]:
        for end in [*pool["backend"]["machines"], pool["backend"]["power"]]:
            end["ssh"]["host_key"] = KEY
    environment = load(FILE, NAMES).of("lab")
    verdict = judge(registered(run_stack, config), environment, replace(GIVEN, production=False))
    assert [(one.rule, one.sentence) for one in verdict.findings if not one.excepted] == []
    assert [one.rule for one in verdict.findings] == ["breaker-can-open"], "its exceptions fit what is wrong"


def test_kind_on_a_laptop_has_no_mandatory_finding(run_stack: Run) -> None:
    config: dict[str, Any] = {**config_of("kind"), "operator": {"kind": "manifests", "path": str(MANIFESTS)}}
    config["users"][0]["ssh_keys"] = [KEY]
    verdict = judge(
        registered(run_stack, config, {"oncall-url": "CANARY-url"}),
        load(FILE, NAMES).of("kind"),
        replace(GIVEN, production=False),
    )
    assert [(one.rule, one.sentence) for one in verdict.findings if not one.excepted] == []


def the(resources: list[Resource], kind: str, name: str = "") -> Resource:
    return next(one for one in resources if one.kind == kind and name in one.name)


def put(kind: str, *path: str, value: Any, name: str = "") -> Change:
    """Sets one input of one resource."""

    def change(resources: list[Resource]) -> None:
        body: Any = the(resources, kind, name).inputs
        for step in path[:-1]:
            body = body[int(step)] if step.isdigit() else body.setdefault(step, {})
        body[path[-1]] = value

    return change


def conf(old: str, new: str) -> Change:
    """Changes a line of slurm.conf."""

    def change(resources: list[Resource]) -> None:
        body: Any = spec(the(resources, "Controller"))
        assert old in body["extraConf"]
        put("Controller", "spec", "extraConf", value=body["extraConf"].replace(old, new))(resources)

    return change


def unprotect(resources: list[Resource]) -> None:
    pool = the(resources, "PoolCapacity")
    resources[resources.index(pool)] = replace(pool, protect=False)


def show_kubeconfig(resources: list[Resource]) -> None:
    resources[0] = replace(resources[0], outputs={"kubeconfig": "apiVersion: v1"})


def stubborn_budget(resources: list[Resource]) -> None:
    every = {"minAvailable": 2, "selector": {"matchLabels": {"app.kubernetes.io/name": "sparewheel-controller"}}}
    body = {"metadata": {"name": "b", "namespace": "sparewheel"}, "spec": every}
    resources.append(Resource("kubernetes:policy/v1:PodDisruptionBudget", "b", body))


def failed_drill(resources: list[Resource]) -> None:
    fault = {"code": "XID 79", "drill": True, "firstSeen": "2026-05-20T10:00:00Z"}
    body = {"metadata": {"name": "r"}, "spec": {"pool": "gpu", "fault": fault}, "status": {"outcome": "Failed"}}
    resources.append(Resource("kubernetes:sparewheel.dev/v1alpha1:Remediation", "r", body))


CONTAINER = ("Deployment", "spec", "template", "spec", "containers", "0")
MUTATIONS: dict[str, Change] = {
    "pool-has-a-spare": put("GpuPool", "spec", "spares", value=0),
    "spares-meet-the-need": put("GpuPool", "spec", "size", value=100),
    "breaker-can-open": put("RemediationPolicy", "spec", "maxFencedPercent", value=100),
    "budgets-limit-replacing": put("GpuPool", "spec", "maxConcurrentReplacements", value=2),
    "drill-passed-lately": failed_drill,
    "pools-are-protected": unprotect,
    "grace-within-promise": put("GpuPool", "spec", "graceSeconds", value=300),
    "kill-wait-is-the-grace": conf("KillWait=120", "KillWait=30"),
    "worker-outlives-the-grace": put("NodeSet", "spec", "template", "spec", "terminationGracePeriodSeconds", value=120),
    "node-returns-by-us-alone": conf("ReturnToService=1", "ReturnToService=2"),
    "requeue-is-quick-and-safe": conf("enable_expedited_requeue", "enable_configless"),
    "filter-makes-jobs-expedited": conf("JobSubmitPlugins=lua", ""),
    "slurm-knows-gpus": conf("GresTypes=gpu", ""),
    "gpu-counts-agree": put("NodeSet", "spec", "extraConf", value="Gres=gpu:4"),
    "workers-have-limits": put("NodeSet", "spec", "slurmd", "resources", "limits", value={"nvidia.com/gpu": 8}),
    "images-by-digest": put(*CONTAINER, "image", value="registry.example/sparewheel:1"),
    "host-access-is-listed": put(*CONTAINER, "securityContext", "privileged", value=True),
    "disruption-budgets-give-way": stubborn_budget,
    "no-veto-on-workers": put("NodeSet", "spec", "template", "metadata", "labels", "sparewheel.dev/veto", value="true"),
    "names-within-limits": put("Deployment", "metadata", "labels", "team", value="x" * 64),
    "no-secret-in-clear": put("Secret", "stringData", value={"machines-ssh": "a"}, name="sparewheel-credentials"),
    "outputs-hide-secrets": show_kubeconfig,
    "no-wildcard-rights": put("Role", "rules", "0", "verbs", value=["*"]),
    "secrets-by-name": put("Role", "rules", "0", "resources", value=["secrets"]),
    "rights-for-named-accounts": put("ClusterRoleBinding", "roleRef", "name", value="cluster-admin"),
    "ssh-keys-are-strong": put("ConfigMap", "data", "alice", value="ssh-dss AAAA alice\n", name="slurm-user-keys"),
    "login-by-key-only": put("LoginSet", "spec", "extraSshdConfig", value="PasswordAuthentication yes\n"),
    "login-from-known-places": put(
        "Service", "spec", "loadBalancerSourceRanges", value=["0.0.0.0/0"], name="login-ssh"
    ),
}


def test_no_rule_is_left_out() -> None:
    assert set(MUTATIONS) == {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", MUTATIONS)
def test_a_rule_notices(resources: list[Resource], rule: str) -> None:
    MUTATIONS[rule](resources)
    found = findings(resources, records=rule == "drill-passed-lately")
    assert rule in found
    others = {"secrets-by-name": {"no-wildcard-rights"}, "grace-within-promise": {"kill-wait-is-the-grace"}}
    assert set(found) - {rule} <= others.get(rule, set()) | {"worker-outlives-the-grace", "breaker-can-open"}


def test_a_mandatory_one_stops(resources: list[Resource]) -> None:
    MUTATIONS["node-returns-by-us-alone"](resources)
    assert judge(resources, Environment(), GIVEN).stops
    relaxed = Environment(levels={"node-returns-by-us-alone": Level.ADVISORY})
    assert not judge(resources, relaxed, GIVEN).stops


def test_nothing_is_allowed_that_nobody_does(resources: list[Resource]) -> None:
    """An entry of the lists in policies/allowed.py that fits nothing would hide the next thing that does."""
    done = {(one.kind, what) for one in resources for what in host_access(spec(one))}
    assert {(one.kind, one.what) for one in HOST_ACCESS} <= done
    operator = read_file(MANIFESTS / "operator.yaml").resources
    assert [one.name for one in ALL_SECRETS] == ["slurm-operator*"]
    assert any(one.kind == "ClusterRole" and one.name == "slurm-operator" for one in operator)
    assert findings(operator, production=False, whole=False) == []
