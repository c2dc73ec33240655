"""Each rule: one resource that breaks it, and the nearest one that doesn't."""

from __future__ import annotations

from typing import Any

import pytest

from policies import rules

ROLE = "kubernetes:rbac.authorization.k8s.io/v1:Role"
POOL = "kubernetes:sparewheel.dev/v1alpha1:GpuPool"
NODE_SET = "kubernetes:slinky.slurm.net/v1beta1:NodeSet"


def role(**rule: Any) -> dict[str, Any]:
    full = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], **rule}
    return {"metadata": {"name": "r"}, "rules": [full]}


def spec(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "gpu"}, "spec": fields}


BROKEN: list[tuple[rules.Rule, str, dict[str, Any], str]] = [
    (rules.no_wildcard_rights, ROLE, role(verbs=["*"]), "verbs is '*'"),
    (rules.no_wildcard_rights, ROLE, role(apiGroups=["*"]), "apiGroups is '*'"),
    (rules.secrets_by_name, ROLE, role(resources=["secrets"]), "give resourceNames"),
    (rules.pool_has_a_spare, POOL, spec(size=2.0, spares=0.0), "pool gpu: has no spare"),
    (rules.grace_is_kept, POOL, spec(graceSeconds=121.0), "graceSeconds is 121"),
    (
        rules.no_veto_on_workers,
        NODE_SET,
        spec(template={"metadata": {"labels": {"sparewheel.dev/veto": "true"}}}),
        "take it off",
    ),
]
KEPT: list[tuple[rules.Rule, str, dict[str, Any]]] = [
    (rules.no_wildcard_rights, ROLE, role()),
    (rules.secrets_by_name, ROLE, role(resources=["secrets"], resourceNames=["one"])),
    (rules.pool_has_a_spare, POOL, spec(size=2.0, spares=1.0)),
    (rules.pool_has_a_spare, POOL, spec(size=0.0, spares=0.0)),
    (rules.grace_is_kept, POOL, spec(graceSeconds=120.0)),
    (rules.no_veto_on_workers, NODE_SET, spec(template={"metadata": {"labels": {"team": "a"}}})),
]


@pytest.mark.parametrize(("rule", "kind", "props", "says"), BROKEN)
def test_broken(rule: rules.Rule, kind: str, props: dict[str, Any], says: str) -> None:
    sentences = list(rule(kind, props))
    assert len(sentences) == 1
    assert says in sentences[0]


@pytest.mark.parametrize(("rule", "kind", "props"), KEPT)
def test_kept(rule: rules.Rule, kind: str, props: dict[str, Any]) -> None:
    assert list(rule(kind, props)) == []


@pytest.mark.parametrize("rule", rules.RULES)
def test_a_rule_leaves_other_kinds_alone(rule: rules.Rule) -> None:
    assert list(rule("kubernetes:core/v1:ConfigMap", {"metadata": {"name": "c"}, "data": {"a": "*"}})) == []
