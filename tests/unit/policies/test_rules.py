"""Each rule: examples that break it, and the nearest ones that don't."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.model import SECRET, Given, Resource, Rule
from policies.rules import RULES
from policies.values import conf
from tests.unit.policies import examples as e

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


def rsa(bits: int) -> str:
    """A public RSA key of that many bits, with a modulus that was never a product of primes."""
    parts = [b"ssh-rsa", (65537).to_bytes(3, "big"), b"\0" + (2 ** (bits - 1) + 1).to_bytes(bits // 8, "big")]
    body = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return f"ssh-rsa {base64.b64encode(body).decode()} me"


BROKEN: list[tuple[str, Sequence[Resource], str]] = [
    ("pool-has-a-spare", [e.pool(spares=0.0)], "pool gpu: has no spare"),
    ("spares-meet-the-need", [e.pool(size=100)], "has 1 spare(s) for 100 nodes and needs"),
    ("breaker-can-open", [e.pool()], "no RemediationPolicy"),
    ("breaker-can-open", [e.pool(), e.policy(maxFencedNodes=None)], "no limit on fencing"),
    ("breaker-can-open", [e.pool(), e.policy(maxFencedNodes=2)], "it never does"),
    ("budgets-limit-replacing", [e.pool(maxConcurrentReplacements=2)], "all of its 2 nodes"),
    ("budgets-limit-replacing", [e.pool(), e.pool("more"), e.policy(budget={})], "nothing limits replacing"),
    ("drill-passed-lately", [e.pool(), e.drill("Failed")], "no drill was healed"),
    ("drill-passed-lately", [e.pool(), e.drill(seen="2026-05-01T10:00:00Z")], "last 30 days"),
    ("drill-passed-lately", [e.pool(), e.drill(is_drill=False)], "sparewheel drill"),
    ("pools-are-protected", [e.pool(protect=False)], "set protect: true"),
    ("grace-within-promise", [e.pool(graceSeconds=121.0)], "graceSeconds is 121"),
    ("kill-wait-is-the-grace", [e.controller("A=1")], "KillWait is not set"),
    ("kill-wait-is-the-grace", [e.controller(e.CONF.replace("120", "300"))], "at most 120"),
    ("kill-wait-is-the-grace", [e.controller(), e.pool(graceSeconds=60)], "the grace of pool gpu is 60 s"),
    (
        "worker-outlives-the-grace",
        [e.controller(), e.workers(template={"spec": {"terminationGracePeriodSeconds": 120}})],
        "killed after 120 s",
    ),
    ("worker-outlives-the-grace", [e.pool(), e.workers(template={"spec": {}})], "killed after 30 s"),
    ("node-returns-by-us-alone", [e.controller("returntoservice = 2 # soon")], "ReturnToService is 2"),
    ("node-returns-by-us-alone", [e.controller(f"{e.CONF}\nReturnToService=2")], "takes the same job again"),
    ("requeue-is-quick-and-safe", [e.controller(e.CONF.replace("requeue_delay=1,", ""))], "waits two minutes"),
    ("requeue-is-quick-and-safe", [e.controller(e.CONF.replace("requeue_delay=1,", "requeue_delay=121,"))], "longer"),
    ("requeue-is-quick-and-safe", [e.controller(e.CONF.replace("JobRequeue=1", "JobRequeue=0"))], "JobRequeue is 0"),
    ("filter-makes-jobs-expedited", [e.controller(e.CONF.replace("lua", "all_partitions"))], "JobSubmitPlugins lacks"),
    ("filter-makes-jobs-expedited", [e.controller()], "no ConfigMap holds job_submit.lua"),
    (
        "slurm-knows-gpus",
        [e.controller(e.CONF.replace("GresTypes=gpu", "")), e.config_map("c", **{"gres.conf": "AutoDetect=nvidia"})],
        "GresTypes lacks gpu",
    ),
    (
        "slurm-knows-gpus",
        [e.controller(e.CONF.replace("gres/gpu", "cpu")), e.config_map("c", **{"gres.conf": "AutoDetect=nvidia"})],
        "GPU hours",
    ),
    ("slurm-knows-gpus", [e.controller()], "no ConfigMap holds gres.conf"),
    ("slurm-knows-gpus", [e.controller(), e.config_map("c", **{"gres.conf": "AutoDetect=off\n"})], "neither detects"),
    ("gpu-counts-agree", [e.workers(extraConf="")], "lacks Gres"),
    ("gpu-counts-agree", [e.workers(extraConf="Gres=gpu:4")], "Gres says 4"),
    ("gpu-counts-agree", [e.workers(extraConf="Gres=gpu:8", slurmd={})], "gets no GPU"),
    ("gpu-counts-agree", [e.pool(gpusPerNode=4), e.workers()], "the pool says 4"),
    ("gpu-counts-agree", [e.pool(), e.agents(7)], "looks for 7 GPUs"),
    ("workers-have-limits", [e.workers(slurmd={})], "cpu and memory"),
    ("images-by-digest", [e.pod(containers=[{"image": "a/b:1"}])], "may be another image tomorrow"),
    ("host-access-is-listed", [e.pod(containers=[{"securityContext": {"privileged": True}}])], "has privileged"),
    ("host-access-is-listed", [e.pod(hostNetwork=True)], "hostNetwork"),
    ("host-access-is-listed", [e.pod(volumes=[{"hostPath": {"path": "/etc"}}])], "hostPath /etc"),
    (
        "host-access-is-listed",
        [e.pod(containers=[{"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}])],
        "capability SYS_ADMIN",
    ),
    ("disruption-budgets-give-way", [e.budget(maxUnavailable=0)], "never leave a node"),
    ("disruption-budgets-give-way", [e.budget(maxUnavailable="0%")], "never leave a node"),
    ("disruption-budgets-give-way", [e.budget(minAvailable=2), e.deployment(2)], "lets none go"),
    ("disruption-budgets-give-way", [e.budget(minAvailable="100%"), e.deployment(3)], "lets none go"),
    ("disruption-budgets-give-way", [e.budget(minAvailable="100%")], "never leave a node"),
    (
        "no-veto-on-workers",
        [e.workers(template={"metadata": {"labels": {"sparewheel.dev/veto": "true"}}})],
        "vetoes every replacement",
    ),
    ("names-within-limits", [e.pool("a" * 41)], "at most 40"),
    ("names-within-limits", [e.made("Pod", "core/v1", "p", metadata={"labels": {"a": "b" * 64}})], "labels a is"),
    ("names-within-limits", [e.made("Pod", "core/v1", "p", metadata={"labels": {"a b": "c"}})], "no label's"),
    ("names-within-limits", [e.made("Pod", "core/v1", "p", metadata={"annotations": {"a": "b" * 2**18}})], "bytes"),
    ("names-within-limits", [e.config_map("c", a="b" * 2**20)], "at most 1048576"),
    ("no-secret-in-clear", [e.config_map("c", a="-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl")], "a private key"),
    ("no-secret-in-clear", [e.config_map("c", a="https://me:pw@example.com/")], "an address with a password"),
    ("no-secret-in-clear", [e.made("Secret", "core/v1", "s", stringData={"a": "b"})], "stringData.a is in clear"),
    ("no-secret-in-clear", [e.pod(containers=[{"env": [{"name": "DB_PASSWORD", "value": "x9"}]}])], "DB_PASSWORD"),
    ("no-secret-in-clear", [Resource("any:it:Is", "x", {"rootPassword": "x9"})], "input rootPassword holds"),
    ("outputs-hide-secrets", [e.stack(kubeconfig="apiVersion: v1")], "output kubeconfig"),
    ("outputs-hide-secrets", [e.stack(login={"token": "x9"})], "output login"),
    ("no-wildcard-rights", [e.role(verbs=["*"])], "verbs has '*'"),
    ("no-wildcard-rights", [e.role(resources=["*/status"])], "resources has '*'"),
    ("no-wildcard-rights", [e.role(verbs=["escalate"])], "may escalate"),
    ("secrets-by-name", [e.role(resources=["secrets"])], "give resourceNames"),
    ("secrets-by-name", [e.role(resources=["secrets"], verbs=["create", "get"])], "give resourceNames"),
    ("secrets-by-name", [e.role("ClusterRole", "operator", resources=["secrets"])], "every secret"),
    ("rights-for-named-accounts", [e.binding("cluster-admin", "ops")], "gives cluster-admin"),
    ("rights-for-named-accounts", [e.binding("view", "system:authenticated")], "which is everybody"),
    ("ssh-keys-are-strong", [e.config_map("k", alice=rsa(2048))], "RSA key of 2048 bits"),
    ("ssh-keys-are-strong", [e.config_map("k", alice="ssh-dss AAAA me")], "type ssh-dss"),
    ("login-by-key-only", [e.login(e.SSHD.replace("PermitRootLogin no", "PermitRootLogin yes"))], "PermitRootLogin"),
    ("login-by-key-only", [e.login(f"PasswordAuthentication yes\n{e.SSHD}")], "PasswordAuthentication is yes"),
    ("login-by-key-only", [e.login(rootSshAuthorizedKeys=ED25519)], "as root"),
    ("login-from-known-places", [e.service(type="LoadBalancer")], "source_ranges"),
    ("login-from-known-places", [e.service(type="NodePort")], "a NodePort"),
    (
        "login-from-known-places",
        [e.service(type="LoadBalancer", loadBalancerSourceRanges=["0.0.0.0/0"])],
        "the whole world",
    ),
]
KEPT: list[tuple[str, Sequence[Resource]]] = [
    ("pool-has-a-spare", [e.pool()]),
    ("pool-has-a-spare", [e.pool(size=0.0, spares=0.0)]),
    ("spares-meet-the-need", [e.pool(size=2, spares=1)]),
    ("breaker-can-open", [e.pool(), e.policy()]),
    ("breaker-can-open", [e.pool(), e.policy(maxFencedNodes=10, maxFencedPercent=50)]),
    ("budgets-limit-replacing", [e.pool(), e.policy()]),
    ("budgets-limit-replacing", [e.pool(), e.pool("more"), e.policy(budget={"atOnce": 2})]),
    ("drill-passed-lately", [e.pool(), e.drill()]),
    ("pools-are-protected", [e.pool()]),
    ("grace-within-promise", [e.pool(graceSeconds=120.0)]),
    ("kill-wait-is-the-grace", [e.controller(), e.pool()]),
    ("worker-outlives-the-grace", [e.controller(), e.pool(), e.workers()]),
    ("node-returns-by-us-alone", [e.controller("ReturnToService=2\nReturnToService=1")]),
    ("requeue-is-quick-and-safe", [e.controller()]),
    ("filter-makes-jobs-expedited", [e.controller(), e.config_map("c", **{"job_submit.lua": "return 0"})]),
    ("slurm-knows-gpus", [e.controller(), e.config_map("c", **{"gres.conf": "AutoDetect=nvidia\n"})]),
    (
        "slurm-knows-gpus",
        [e.controller(), e.config_map("c", **{"gres.conf": "AutoDetect=off\nName=gpu File=/dev/nvidia0\n"})],
    ),
    ("gpu-counts-agree", [e.pool(), e.workers(), e.agents()]),
    ("workers-have-limits", [e.workers()]),
    ("images-by-digest", [e.pod(containers=[{"image": e.DIGEST}])]),
    ("host-access-is-listed", [e.pod(containers=[{"securityContext": {"privileged": False}}])]),
    ("host-access-is-listed", [e.workers(template={"spec": {"volumes": [{"hostPath": {"path": "/run/sparewheel"}}]}})]),
    ("disruption-budgets-give-way", [e.budget(maxUnavailable=1), e.deployment(1)]),
    ("disruption-budgets-give-way", [e.budget(minAvailable=1), e.deployment(2)]),
    ("disruption-budgets-give-way", [e.budget(minAvailable=1), e.deployment(1, {"app": "other"})]),
    ("no-veto-on-workers", [e.workers(template={"metadata": {"labels": {"team": "a"}}})]),
    ("names-within-limits", [e.pool("a" * 40), e.made("Pod", "core/v1", "p", metadata={"labels": {"a/b": "c-d"}})]),
    ("no-secret-in-clear", [e.made("Secret", "core/v1", "s", stringData={"a": SECRET}, data=SECRET)]),
    ("no-secret-in-clear", [e.pod(containers=[{"env": [{"name": "RANDOM_ROOT_PASSWORD", "value": "yes"}]}])]),
    ("no-secret-in-clear", [Resource("any:it:Is", "x", {"password": SECRET, "tokenLifetime": "1h"})]),
    ("outputs-hide-secrets", [e.stack(kubeconfig=SECRET, login="ssh USER@login.example")]),
    ("no-wildcard-rights", [e.role()]),
    ("secrets-by-name", [e.role(resources=["secrets"], resourceNames=["one"])]),
    ("secrets-by-name", [e.role(resources=["secrets"], verbs=["create"])]),
    ("secrets-by-name", [e.role("ClusterRole", "slurm-operator", resources=["secrets"])]),
    ("rights-for-named-accounts", [e.binding("sparewheel-agent", "ops")]),
    ("ssh-keys-are-strong", [e.config_map("k", alice=f"{rsa(3072)}\n{ED25519} me", notes="# ssh keys of all")]),
    ("login-by-key-only", [e.login()]),
    ("login-from-known-places", [e.service(type="LoadBalancer", loadBalancerSourceRanges=["198.51.100.0/24"])]),
    ("login-from-known-places", [e.service(type="ClusterIP")]),
]
BY_NAME = {rule.name: rule for rule in RULES}


def said(rule: Rule, resources: Sequence[Resource], given: Given = e.GIVEN) -> list[str]:
    return [text for _, text in rule.run(resources, given)]


@pytest.mark.parametrize(("name", "resources", "says"), BROKEN)
def test_broken(name: str, resources: Sequence[Resource], says: str) -> None:
    sentences = said(BY_NAME[name], resources)
    assert len(sentences) == 1, sentences
    assert says in sentences[0]


@pytest.mark.parametrize(("name", "resources"), KEPT)
def test_kept(name: str, resources: Sequence[Resource]) -> None:
    assert said(BY_NAME[name], resources) == []


def test_every_rule_has_an_example_of_either_kind() -> None:
    assert {name for name, _, _ in BROKEN} == set(BY_NAME)
    assert {name for name, _ in KEPT} == set(BY_NAME)


def test_without_expedited_requeue_the_delay_covers_the_grace() -> None:
    rule = BY_NAME["requeue-is-quick-and-safe"]
    plain = e.CONF.replace(",enable_expedited_requeue", "")
    assert ["lacks enable_expedited" in text for text in said(rule, [e.controller(plain)])] == [True, False]
    assert "starts while the first one saves" in said(rule, [e.controller(plain)])[1]
    assert len(said(rule, [e.controller(plain.replace("requeue_delay=1,", "requeue_delay=120,"))])) == 1


def test_measured_need_counts_before_the_computed_one() -> None:
    rule = BY_NAME["spares-meet-the-need"]
    assert said(rule, [e.pool()], replace(e.GIVEN, spares_needed={"gpu": 3}))[0].count("needs 3 by its own failures")
    assert said(rule, [e.pool(size=100)], replace(e.GIVEN, spares_needed={"gpu": 1})) == []


@pytest.mark.parametrize("name", ["breaker-can-open", "filter-makes-jobs-expedited", "slurm-knows-gpus"])
def test_what_is_not_in_a_part_of_a_stack_may_be_in_another(name: str) -> None:
    assert said(BY_NAME[name], [e.pool(), e.controller()], replace(e.GIVEN, whole=False)) == []


def test_no_sentence_shows_the_secret_it_found() -> None:
    rule = BY_NAME["no-secret-in-clear"]
    found = said(rule, [Resource("any:it:Is", "x", {"password": "CANARY", "a": {"b": "https://me:CANARY@h/"}})])
    assert len(found) == 2
    assert "CANARY" not in " ".join(found)


@given(st.integers(1, 400), st.integers(0, 60), st.integers(0, 5))
def test_more_spares_are_never_worse(size: int, spares: int, more: int) -> None:
    rule = BY_NAME["spares-meet-the-need"]
    if spares and not said(rule, [e.pool(size=size, spares=spares)]):
        assert not said(rule, [e.pool(size=size, spares=spares + more)])


KEYS = (
    *("spec", "template", "metadata", "labels", "annotations", "selector", "matchLabels", "containers", "env", "name"),
    *(
        "value",
        "image",
        "fault",
        "drill",
        "pool",
        "firstSeen",
        "outcome",
        "extraConf",
        "extraSshdConfig",
        "type",
        "size",
    ),
    *(
        "spares",
        "budget",
        "slurmd",
        "resources",
        "limits",
        "maxUnavailable",
        "minAvailable",
        "hostPath",
        "path",
        "verbs",
    ),
    *("apiGroups", "resourceNames", "loadBalancerSourceRanges", "gres.conf", "nodeSelector", "command", "volumes"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=12,
)
KINDS = ("GpuPool", "Controller", "NodeSet", "ConfigMap", "Role", "ClusterRoleBinding", "Service", "LoginSet", "Secret")
AREAS = st.dictionaries(
    st.sampled_from(("spec", "data", "metadata", "rules", "subjects", "roleRef", "stringData", "status")),
    JSON,
    min_size=1,
)


@given(st.lists(st.tuples(st.sampled_from((*KINDS, "PodDisruptionBudget", "Remediation", "DaemonSet")), AREAS)))
def test_no_input_of_any_shape_breaks_a_rule(found: list[tuple[str, dict[str, object]]]) -> None:
    resources = [Resource(f"kubernetes:a/v1:{kind}", "n", body) for kind, body in found]
    for rule in RULES:
        for text in said(rule, resources):
            assert text


@given(st.dictionaries(st.from_regex(r"\A[A-Za-z]{1,8}\Z"), st.from_regex(r"\A[a-z0-9]{1,8}\Z"), max_size=5))
def test_slurm_conf_is_read_without_regard_to_case(lines: dict[str, str]) -> None:
    text = "\n".join(f"{key}={value} # why" for key, value in lines.items())
    last = {key.lower(): value for key, value in lines.items()}
    assert conf(text) == last
