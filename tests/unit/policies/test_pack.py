"""The engine's side: what is asked when, with which level, and that secrets are told from clear text."""

from __future__ import annotations

from typing import Any

from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import analyzer_pb2

from policies.judge import NAMES
from policies.pack.analyzer import Analyzer
from policies.settings import Settings

SECRET: dict[str, Any] = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "value": "CANARY"}
POOL = "kubernetes:sparewheel.dev/v1alpha1:GpuPool"
EXCEPTION = {"rule": "pool-has-a-spare", "resource": "GpuPool/gpu", "reason": "bought next quarter"}


def analyzer(**environment: Any) -> Analyzer:
    made = Analyzer(Settings.model_validate({"environments": {"try": {"kind": "development", **environment}}}))
    made.ConfigureStack(analyzer_pb2.AnalyzerStackConfigureRequest(stack="try"), None)
    return made


def properties(body: dict[str, Any]) -> struct_pb2.Struct:
    found = struct_pb2.Struct()
    found.update(body)
    return found


def request(kind: str, body: dict[str, Any], *, protect: bool = False) -> analyzer_pb2.AnalyzeRequest:
    options = analyzer_pb2.AnalyzerResourceOptions(protect=protect)
    urn = f"urn:pulumi:try::sparewheel::{kind}::one"
    return analyzer_pb2.AnalyzeRequest(type=kind, urn=urn, name="one", properties=properties(body), options=options)


def pool(spares: int = 0) -> dict[str, Any]:
    return {"metadata": {"name": "gpu"}, "spec": {"size": 2, "spares": spares}}


def test_one_resource_before_it_is_made() -> None:
    found = analyzer().Analyze(request(POOL, pool()), None).diagnostics
    assert [(one.policyName, one.enforcementLevel) for one in found] == [("pool-has-a-spare", analyzer_pb2.MANDATORY)]
    assert found[0].urn.endswith("::one")
    assert list(analyzer().Analyze(request(POOL, pool(1)), None).diagnostics) == []


def test_the_level_is_the_environments() -> None:
    found = analyzer(levels={"pool-has-a-spare": "advisory"}).Analyze(request(POOL, pool()), None).diagnostics
    assert [one.enforcementLevel for one in found] == [analyzer_pb2.ADVISORY]


def test_an_excepted_finding_is_told_with_its_reason_and_stops_nothing() -> None:
    kept = analyzer(exceptions=[{**EXCEPTION, "until": "2999-01-01"}])
    found = kept.Analyze(request(POOL, pool()), None).diagnostics
    assert [one.enforcementLevel for one in found] == [analyzer_pb2.ADVISORY]
    assert "accepted: bought next quarter" in found[0].message


def test_a_secret_is_told_from_clear_text() -> None:
    def said(value: Any) -> list[str]:
        return [one.message for one in analyzer().Analyze(request("any:it:Is", {"password": value}), None).diagnostics]

    assert said(SECRET) == []
    assert len(said("CANARY")) == 1
    assert "CANARY" not in said("CANARY")[0]


def test_the_whole_stack_at_the_end() -> None:
    kept = analyzer(exceptions=[{**EXCEPTION, "until": "2000-01-01"}])
    one = analyzer_pb2.AnalyzerResource(type=POOL, urn="u::one", properties=properties(pool(1)))
    root = analyzer_pb2.AnalyzerResource(
        type="pulumi:pulumi:Stack", urn="u::root", properties=properties({"kubeconfig": "open"})
    )
    found = kept.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=[one, root]), None).diagnostics
    assert {each.policyName for each in found} == {"breaker-can-open", "outputs-hide-secrets", "exception-ended"}


def test_at_the_end_inputs_are_judged_and_not_outputs_that_are_not_known_yet() -> None:
    kept = analyzer()
    kind = "kubernetes:sparewheel.dev/v1alpha1:RemediationPolicy"
    inputs = {"metadata": {"name": "default"}, "spec": {"maxFencedNodes": 1}}
    shown = request(kind, inputs)
    kept.Analyze(shown, None)
    kept.Analyze(request(POOL, pool(1)), None)
    ends = [
        analyzer_pb2.AnalyzerResource(type=kind, urn=shown.urn, properties=properties({})),
        analyzer_pb2.AnalyzerResource(type=POOL, urn=f"urn:pulumi:try::sparewheel::{POOL}::one"),
    ]
    assert list(kept.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=ends), None).diagnostics) == []


def test_production_is_asked_more_and_says_what_it_cannot_judge() -> None:
    production = Analyzer(Settings())
    production.ConfigureStack(analyzer_pb2.AnalyzerStackConfigureRequest(stack="prod"), None)
    found = production.Analyze(request(POOL, pool(1)), None).diagnostics
    assert [one.policyName for one in found] == ["pools-are-protected"]
    assert list(production.Analyze(request(POOL, pool(1), protect=True), None).diagnostics) == []
    response = production.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(), None)
    assert [one.policy_name for one in response.not_applicable] == ["drill-passed-lately"]


def test_every_rule_is_announced_once() -> None:
    info = analyzer().GetAnalyzerInfo(empty_pb2.Empty(), None)
    assert sorted(one.name for one in info.policies) == sorted(NAMES)
    assert all(one.description for one in info.policies)
