"""A stack of an older version is brought up to date by one `pulumi up`, whatever its objects and kinds were like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.components.conftest import SECRETS
from tests.pulumi.stack import ALONE, ROOT, WHOLE, ProjectStack
from tests.pulumi.test_whole_stack import config, kubectl

pytestmark = pytest.mark.slow

OLDER = f"""{ALONE}
import runpy

from components import kinds_served, remediation

kinds_served.digest = lambda: "older"
crd_manifests, policy_spec = remediation.crd_manifests, remediation.policy_spec


def older_kinds():
    for manifest in crd_manifests():
        if manifest["spec"]["names"]["kind"] == "RemediationPolicy":
            spec = manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            route = spec["properties"]["routes"]["items"]
            del route["required"], route["x-kubernetes-validations"], route["properties"]["kind"]
        yield manifest


class Older:
    def __init__(self, config):
        self.spec = policy_spec(config)

    def model_dump(self, **options):
        shown = self.spec.model_dump(**options)
        return {{**shown, "routes": [{{"name": one["name"], "urlRef": one["urlRef"]}} for one in shown["routes"]]}}


remediation.crd_manifests, remediation.policy_spec = older_kinds, Older
runpy.run_path({str(ROOT / "__main__.py")!r})
"""
"""As it was before a route had a kind."""


@pytest.mark.timeout(400)
def test_a_stack_from_before_routes_had_a_kind_is_brought_up_to_date(
    api_server: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stack = ProjectStack(tmp_path_factory.mktemp("upgrade"), OLDER)
    stack.configure(config(api_server), {**SECRETS, "power-ssh": "CANARY-power"})
    stack.up()
    older = _routes(api_server)
    assert "kind" not in older[0]
    (stack.folder / "__main__.py").write_text(WHOLE)
    newer = config(api_server)
    newer["images"]["slurmctld"] = "registry.example/slurmctld:2"
    stack.configure(newer)
    said = stack.pipeline("preview").stdout
    assert "remediationpolicies" in said, "what changes is shown, the kinds too"
    assert "**What restarts**\n\n- slurmctld restarts: under a minute" in said
    stack.up()
    assert [route["kind"] for route in _routes(api_server)] == ["webhook"]
    stack.good("preview", "--expect-no-changes")


def _routes(kubeconfig: Path) -> list[dict[str, str]]:
    text = kubectl(kubeconfig, "-n", "sparewheel", "get", "remediationpolicy", "default", "-o", "json")
    found: list[dict[str, str]] = json.loads(text)["spec"]["routes"]
    return found
