"""The engine's analyzer protocol over the rules: single resources before they are made, the whole stack at the end.

Written on the protocol itself, which the SDK brings, and not on the package pulumi-policy: that asks for an older
protobuf than the SDK has, and takes the secret marks off before a rule sees them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf import empty_pb2, json_format
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc, plugin_pb2

from policies import read
from policies.judge import ABOUT_EXCEPTIONS, NAMES, judge, level_of
from policies.model import Finding, Given, Level, Resource
from policies.rules import RULES
from policies.settings import Environment, Kind, Settings

NAME: Final = "sparewheel"
VERSION: Final = "0.1.0"
_LEVELS: Final = {
    Level.ADVISORY: analyzer_pb2.ADVISORY,
    Level.MANDATORY: analyzer_pb2.MANDATORY,
    Level.DISABLED: analyzer_pb2.DISABLED,
}
SINGLE: Final = tuple(rule for rule in RULES if rule.check is not None and not rule.of_outputs)
"""Rules that look at one resource's inputs: asked before it is made."""
AT_THE_END: Final = frozenset((*ABOUT_EXCEPTIONS, *(rule.name for rule in RULES if rule not in SINGLE)))


class Analyzer(analyzer_pb2_grpc.AnalyzerServicer):
    """Keeps the environment of one run, and the inputs that it was shown.

    At the end the engine sends outputs, which in a preview may lack what isn't known yet, so the inputs are judged.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen: dict[str, Resource] = {}
        self._environment: Environment = settings.of("")

    def Handshake(self, request: Any, context: Any) -> Any:
        return analyzer_pb2.AnalyzerHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    def Configure(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Remediate(self, request: Any, context: Any) -> Any:
        return analyzer_pb2.RemediateResponse()

    def ConfigureStack(self, request: Any, context: Any) -> Any:
        """The stack's name is the environment's."""
        self._environment = self._settings.of(request.stack)
        return analyzer_pb2.AnalyzerStackConfigureResponse()

    def GetAnalyzerInfo(self, request: Any, context: Any) -> Any:
        known = [(rule.name, level_of(rule, self._environment), rule.sentence, rule in SINGLE) for rule in RULES]
        known += [(name, level, says, False) for name, (level, says) in ABOUT_EXCEPTIONS.items()]
        return analyzer_pb2.AnalyzerInfo(
            name=NAME,
            displayName=NAME,
            version=VERSION,
            policies=[
                analyzer_pb2.PolicyInfo(
                    name=name,
                    description=says,
                    enforcementLevel=_LEVELS[level],
                    policy_type=analyzer_pb2.POLICY_TYPE_RESOURCE if single else analyzer_pb2.POLICY_TYPE_STACK,
                )
                for name, level, says, single in known
            ],
        )

    def Analyze(self, request: Any, context: Any) -> Any:
        """One resource's inputs. What is wrong with exceptions is told at the end, when every finding is known."""
        one = self._seen[request.urn] = resource(request)
        verdict = judge([one], self._environment, self._given(whole=False), SINGLE)
        return _response(finding for finding in verdict.findings if finding.rule not in ABOUT_EXCEPTIONS)

    def AnalyzeStack(self, request: Any, context: Any) -> Any:
        """Everything together, as it will be or is."""
        resources = [self._at_the_end(one) for one in request.resources]
        verdict = judge(resources, self._environment, self._given(whole=True))
        response = _response(finding for finding in verdict.findings if finding.rule in AT_THE_END)
        for name, why in verdict.not_judged:
            if name in NAMES:
                response.not_applicable.append(analyzer_pb2.PolicyNotApplicable(policy_name=name, reason=why))
        return response

    def _at_the_end(self, message: Any) -> Resource:
        sent = resource(message)
        shown = self._seen.get(message.urn)
        return sent if shown is None else replace(shown, outputs=sent.outputs)

    def _given(self, *, whole: bool) -> Given:
        production = self._environment.kind is Kind.PRODUCTION
        return Given(now=datetime.now(UTC), production=production, whole=whole)


def resource(message: Any) -> Resource:
    """A resource as the engine sends it; its properties are inputs, and the stack's own are its outputs."""
    props = json_format.MessageToDict(message.properties)
    body = {"urn": message.urn, "type": message.type, "inputs": props, "outputs": props}
    return read.resource({**body, "protect": message.options.protect})


def _response(findings: Iterable[Finding]) -> Any:
    sentences = {rule.name: rule.sentence for rule in RULES} | {n: says for n, (_, says) in ABOUT_EXCEPTIONS.items()}
    return analyzer_pb2.AnalyzeResponse(
        diagnostics=[
            analyzer_pb2.AnalyzeDiagnostic(
                policyName=one.rule,
                policyPackName=NAME,
                policyPackVersion=VERSION,
                description=sentences[one.rule],
                message=f"{one.sentence} (accepted: {one.excepted})" if one.excepted else one.sentence,
                urn=one.urn,
                enforcementLevel=_LEVELS[Level.ADVISORY if one.excepted else one.level],
            )
            for one in findings
        ]
    )
