"""The provider's side of the engine's protocol."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, plugin_pb2, provider_pb2, provider_pb2_grpc

from lab.toolchain.command_plugin import resources, wire
from lab.toolchain.command_plugin.execution import CommandError, Log
from lab.toolchain.command_plugin.local import LocalRunner

if TYPE_CHECKING:
    from lab.toolchain.command_plugin.wire import Properties

VERSION = "1.2.1"
Outputs = TypeVar("Outputs")
_NO_KEYS = frozenset({"__internal", "__defaults"})


class CommandProvider(provider_pb2_grpc.ResourceProviderServicer):
    """Serves the resources of `resources`; keeps no state of its own."""

    def __init__(self, engine_address: str) -> None:
        self._runner = LocalRunner()
        self._engine: Any = None
        if engine_address:
            self._attach(engine_address)

    def Handshake(self, request: Any, context: Any) -> Any:
        self._attach(request.engine_address)
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    def Attach(self, request: Any, context: Any) -> Any:
        self._attach(request.address)
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: Any) -> Any:
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    def Check(self, request: Any, context: Any) -> Any:
        kind = _kind(request, context)
        inputs = _inputs(request.news)
        failures = [
            provider_pb2.CheckFailure(property=name, reason=reason) for name, reason in resources.problems(kind, inputs)
        ]
        return provider_pb2.CheckResponse(inputs=wire.write(inputs), failures=failures)

    def Diff(self, request: Any, context: Any) -> Any:
        """Changed triggers replace; any other changed input updates."""
        kind = _kind(request, context)
        olds = _inputs(request.old_inputs) or _inputs(request.olds)
        news = _inputs(request.news)
        ignored = set(request.ignoreChanges)
        changed = sorted(
            name
            for name in resources.INPUTS[kind]
            if name not in ignored and not wire.same(olds.get(name), news.get(name))
        )
        kinds = provider_pb2.PropertyDiff
        detailed = {
            name: kinds(kind=kinds.UPDATE_REPLACE if name == "triggers" else kinds.UPDATE, inputDiff=True)
            for name in changed
        }
        response = provider_pb2.DiffResponse
        return response(
            changes=response.DIFF_SOME if changed else response.DIFF_NONE,
            diffs=changed,
            replaces=[name for name in changed if name == "triggers"],
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

    def Create(self, request: Any, context: Any) -> Any:
        kind = _kind(request, context)
        inputs = _inputs(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=wire.write(resources.planned(kind, inputs)))
        log = self._log(request.urn)
        outputs = _carried_out(context, lambda: resources.run_create(kind, inputs, self._runner, log))
        name = request.urn.rsplit("::", 1)[-1]
        return provider_pb2.CreateResponse(id=f"{name}{secrets.token_hex(4)}", properties=wire.write(outputs))

    def Update(self, request: Any, context: Any) -> Any:
        kind = _kind(request, context)
        olds, inputs = wire.read(request.olds), _inputs(request.news)
        if request.preview:
            return provider_pb2.UpdateResponse(properties=wire.write(resources.planned(kind, inputs)))
        log = self._log(request.urn)
        outputs = _carried_out(context, lambda: resources.run_update(kind, olds, inputs, self._runner, log))
        return provider_pb2.UpdateResponse(properties=wire.write(outputs))

    def Delete(self, request: Any, context: Any) -> Any:
        kind = _kind(request, context)
        olds = wire.read(request.properties)
        log = self._log(request.urn)
        _carried_out(context, lambda: resources.run_delete(kind, olds, self._runner, log))
        return empty_pb2.Empty()

    def Read(self, request: Any, context: Any) -> Any:
        """The state as it was: a command has nothing to look at again."""
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    def Invoke(self, request: Any, context: Any) -> Any:
        if request.tok != resources.LOCAL_RUN:
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no function {request.tok}")
        log = self._log("")
        inputs = _inputs(request.args)
        outputs = _carried_out(context, lambda: resources.run_function(inputs, self._runner, log))
        response = provider_pb2.InvokeResponse()
        getattr(response, "return").CopyFrom(wire.write(outputs))
        return response

    def Cancel(self, request: Any, context: Any) -> Any:
        self._runner.cancel()
        return empty_pb2.Empty()

    def _attach(self, address: str) -> None:
        self._engine = engine_pb2_grpc.EngineStub(grpc.insecure_channel(address))

    def _log(self, urn: str) -> Log:
        def tell(_stream: str, line: str) -> None:
            if self._engine is not None and line:
                try:
                    self._engine.Log(engine_pb2.LogRequest(severity=engine_pb2.INFO, message=line, urn=urn))
                except grpc.RpcError:
                    return  # an engine that is going away doesn't listen; the command's work still counts

        return tell


def _carried_out(context: Any, work: Callable[[], Outputs]) -> Outputs:
    """Run `work`; a failed command becomes the resource's error."""
    try:
        return work()
    except CommandError as error:
        context.abort(grpc.StatusCode.UNKNOWN, str(error))
        raise  # abort has raised already; this says so to the type checker


def _kind(request: Any, context: Any) -> str:
    """The resource's type, out of its URN: `urn:pulumi:stack::project::parents$type::name`."""
    kind = str(request.urn).split("::")[2].split("$")[-1]
    if kind not in resources.INPUTS:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, f"the stand-in for pulumi-command doesn't serve {kind}")
    return kind


def _inputs(struct: Any) -> Properties:
    """Inputs only, without the engine's own keys and without outputs."""
    return {
        name: value
        for name, value in wire.read(struct).items()
        if name not in _NO_KEYS and name not in ("stdout", "stderr")
    }
