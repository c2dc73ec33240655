"""A stack's config to start from, and Pulumi's mocks that remember what was registered."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pulumi
import pytest
from google.protobuf import json_format
from pulumi.runtime import mocks as pulumi_mocks
from pulumi.runtime.config import set_all_config
from pulumi.runtime.settings import SETTINGS
from pulumi.runtime.stack import run_pulumi_func

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "lab/standins/slinky/manifests"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
IMAGES = ("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "login", "base", "mariadb", "sparewheel")
KUBECONFIG = json.dumps(
    {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "admin"}}],
        "clusters": [{"name": "it", "cluster": {"server": "https://192.0.2.9:6443"}}],
        "users": [{"name": "admin", "user": {"token": "CANARY-kubeconfig"}}],
    }
)
SECRETS = {"machines-ssh": "CANARY-machines", "power-ssh": "CANARY-power", "oncall-url": "CANARY-url"}


NODE_POOL = "1d3c5f6e-0000-4000-8000-00000000000a"
"""The id that each node pool of Crusoe's gets here."""


def stack_config() -> dict[str, Any]:
    """A whole and right config; tests change a copy."""
    ssh = {"address": "192.0.2.1", "host_key": KEY}
    return {
        "cluster": {"kind": "command", "command": "print-kubeconfig"},
        "operator": {"kind": "manifests", "path": str(MANIFESTS)},
        "images": {name: f"registry.example/{name}:1" for name in IMAGES},
        "slurm": {"version": "26.05", "accounting": {"kind": "in_cluster"}, "gpu_files": "/dev/nvidia[0-7]"},
        "storage": {name: {"kind": "host_path", "path": f"/srv/{name}"} for name in ("home", "state", "database")},
        "groups": [{"name": "research", "gid": 30001}],
        "users": [{"name": "alice", "uid": 20001, "groups": ["research"], "ssh_keys": [KEY]}],
        "login": {"service": {"type": "NodePort", "node_port": 30022, "address": "login.example"}},
        "pools": [
            {
                "name": "gpu",
                "size": 2,
                "spares": 1,
                "backend": {
                    "kind": "machines",
                    "key_ref": "machines-ssh",
                    "machines": [{"name": f"gpu-{n}", "ssh": {**ssh, "address": f"192.0.2.{n}"}} for n in (1, 2, 3)],
                    "power": {"ssh": dict(ssh), "key_ref": "power-ssh"},
                },
            }
        ],
        "remediation": {"routes": [{"name": "oncall", "kind": "webhook", "url_secret": "oncall-url"}]},
    }


def crusoe_backend() -> dict[str, Any]:
    """Backend ``crusoe`` as a stack's file says it."""
    return {
        "kind": "crusoe",
        "project_id": "09ae8411-0fbb-411c-898c-2b8f19622ae1",
        "node_pool_id": "1d3c5f6e-0000-4000-8000-000000000009",
        "access": {"key_id": "R7p5XctCQMuGlpVBmVdqzA", "key_ref": "machines-ssh"},
    }


def production(raw: dict[str, Any]) -> dict[str, Any]:
    """The same stack as production would have it."""
    raw["images"] = {name: f"registry.example/{name}@sha256:{'0123456789abcdef' * 4}" for name in IMAGES}
    raw["login"] = {"service": {"type": "LoadBalancer", "source_ranges": ["198.51.100.0/24"]}}
    raw["pools"][0].update(protect=True, cpus="8", memory="64Gi")
    return raw


@pytest.fixture
def raw() -> dict[str, Any]:
    return copy.deepcopy(stack_config())


@dataclass
class Registered:
    """One resource as the engine would see it."""

    type: str
    name: str
    urn: str
    parent: str
    inputs: dict[str, Any]
    depends_on: list[str]
    secret_outputs: list[str]
    retained: bool
    custom: bool
    secret_inputs: set[str]
    protect: bool
    wire: dict[str, Any]
    """The inputs as they are sent, secrets marked."""


class Mocks(pulumi_mocks.Mocks):
    """What the engine and the providers would answer."""

    def new_resource(self, args: pulumi_mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        outputs: dict[str, Any] = dict(cast("dict[str, Any]", args.inputs))  # pyright: ignore[reportUnknownMemberType]
        if args.typ in ("command:local:Command", "command:remote:Command"):
            outputs["stdout"] = KUBECONFIG
        if args.typ.endswith("CrusoeKubeconfig"):
            outputs["kubeconfig"] = KUBECONFIG
        if args.typ.endswith("KindsServed"):
            outputs["served"] = outputs["digest"]
        if args.typ.endswith("GeneratedSecret"):
            outputs["base64"] = "Q0FOQVJZ"
        if args.typ.endswith("CrusoeNodePool"):
            return f"{NODE_POOL}@incarnation", outputs
        return f"{args.name}-id", outputs

    def call(self, args: pulumi_mocks.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        return {}, None


class Monitor(pulumi_mocks.MockMonitor):
    """Remembers every registration whole."""

    def __init__(self) -> None:
        super().__init__(Mocks())
        self.seen: list[Registered] = []

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        response: Any = super().RegisterResource(request)  # pyright: ignore[reportUnknownMemberType]
        if request.type != "pulumi:pulumi:Stack":
            plain = json_format.MessageToDict(request.object)
            self.seen.append(
                Registered(
                    type=request.type,
                    name=request.name,
                    urn=response.urn,
                    parent=request.parent,
                    inputs=_revealed(plain),
                    depends_on=list(request.dependencies),
                    secret_outputs=list(request.additionalSecretOutputs),
                    retained=request.retainOnDelete,
                    custom=request.custom,
                    secret_inputs={key for key, value in plain.items() if _is_secret(value)},
                    protect=request.protect,
                    wire=plain,
                )
            )
        return response


@dataclass
class Stack:
    """What a run of the program registered."""

    resources: list[Registered]

    def of_type(self, ending: str) -> list[Registered]:
        return [found for found in self.resources if found.type.endswith(ending)]

    def one(self, ending: str, name: str | None = None) -> Registered:
        """The one resource of that type; ``name`` is Kubernetes' or Pulumi's name."""
        found = [
            r
            for r in self.of_type(ending)
            if name is None or name in (r.name, r.inputs.get("metadata", {}).get("name"))
        ]
        assert len(found) == 1, (ending, name, [f"{r.type} {r.name}" for r in self.resources])
        return found[0]

    def before(self, resource: Registered) -> set[str]:
        """URNs of everything that is made before ``resource``, and so destroyed after it: dependencies and parents,
        theirs, and the children of a component that is depended on."""
        by_urn = {r.urn: r for r in self.resources}
        found: set[str] = set()
        todo = [resource.urn]
        while todo:
            current = by_urn.get(todo.pop())
            if current is None:
                continue
            for urn in [*current.depends_on, current.parent]:
                if urn and urn not in found and urn != resource.urn:
                    found.add(urn)
                    todo.append(urn)
        return found


_SECRET = "4dabf18193072939515e22adb298388d"
_SECRET_VALUE = "1b47061264138c4ac30d75fd1eb44270"


def _is_secret(value: Any) -> bool:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return fields.get(_SECRET) == _SECRET_VALUE or any(_is_secret(item) for item in fields.values())
    return isinstance(value, list) and any(_is_secret(item) for item in cast("list[Any]", value))


def _revealed(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if fields.get(_SECRET) == _SECRET_VALUE:
            return _revealed(fields["value"])
        return {key: _revealed(item) for key, item in fields.items()}
    return [_revealed(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


Run = Callable[..., Stack]


@contextmanager
def stack_runner() -> Iterator[Run]:
    """Runs the whole program with a config, against mocks, and leaves nothing of it behind."""
    code = compile((ROOT / "__main__.py").read_text("utf-8"), "__main__.py", "exec")
    settings: Any = SETTINGS

    def program() -> None:
        exec(code, {"__name__": "stack"})

    def forget() -> None:
        settings.rpc_manager.clear()
        settings.outputs.clear()

    def run(config: dict[str, Any], secrets: dict[str, str] = SECRETS) -> Stack:
        monitor = Monitor()
        pulumi_mocks.set_mocks(monitor.mocks, project="sparewheel", stack="test", monitor=monitor)
        values = {f"sparewheel:{key}": json.dumps(value) for key, value in config.items()}
        values |= {f"sparewheel:{key}": value for key, value in secrets.items()}
        set_all_config(values, [f"sparewheel:{key}" for key in secrets])
        forget()
        loop.run_until_complete(run_pulumi_func(program))
        return Stack(monitor.seen)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(_not_again)
    asyncio.set_event_loop(loop)
    try:
        yield run
    finally:
        loop.run_until_complete(_end_all())
        forget()
        set_all_config({}, [])
        asyncio.set_event_loop(None)
        loop.close()


async def _end_all() -> None:
    """A program that ends in an error leaves the registrations that waited for what failed."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _not_again(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Each output that waited for what failed has the same error; the test has it already."""
    if not isinstance(context.get("exception"), pulumi.RunError):
        loop.default_exception_handler(context)


@pytest.fixture
def run_stack() -> Iterator[Run]:
    """Run the whole program with a config, against mocks."""
    with stack_runner() as run:
        yield run
