"""The project's own program under the real engine, against a real API server without kubelets.

Nothing gets ready there, so a transform tells the Kubernetes provider not to wait; all else is as users run it.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import yaml

from tests.support.canaries import files_under, leaks

ROOT = Path(__file__).parents[2]
PASSPHRASE = "only for this test"
TIMEOUT_SECONDS = 170

ALONE = f"""
import sys

import pulumi

sys.path.insert(0, {str(ROOT)!r})


def no_controllers(args):
    # Nobody makes things ready here, and nobody collects garbage.
    if not args.type_.startswith("kubernetes:") or "metadata" not in args.props:
        return None
    metadata = dict(args.props["metadata"])
    metadata["annotations"] = {{
        **metadata.get("annotations", {{}}),
        "pulumi.com/skipAwait": "true",
        "pulumi.com/deletionPropagationPolicy": "background",
    }}
    return pulumi.ResourceTransformResult({{**args.props, "metadata": metadata}}, args.opts)


pulumi.runtime.register_resource_transform(no_controllers)
"""
"""The head of a program that runs against an API server without controllers."""

WHOLE = f"{ALONE}\nimport runpy\n\nrunpy.run_path({str(ROOT / '__main__.py')!r})\n"


@dataclass(frozen=True)
class Done:
    """One run of the command line: its exit code and all that it said."""

    code: int
    said: str


class ProjectStack:
    """One stack named `test`; each run may have another config. Its secrets hold the word that all are searched for."""

    made: ClassVar[list[ProjectStack]] = []

    def __init__(self, folder: Path, program: str = WHOLE, beside: ProjectStack | None = None) -> None:
        """``beside``: a stack of another project, in that one's backend."""
        self.made.append(self)
        self.heard: dict[str, str] = {}
        self.secrets: set[str] = set()
        """Secrets of this stack that could not be made up, such as a key in a kubeconfig."""
        self.folder = folder / "project"
        self.backend = beside.backend if beside else folder / "backend"
        (self.folder / "stacks").mkdir(parents=True)
        self.backend.mkdir(exist_ok=True)
        project = (ROOT / "Pulumi.yaml").read_text()
        (self.folder / "Pulumi.yaml").write_text(
            project.replace("name: sparewheel", "name: other") if beside else project
        )
        (self.folder / "__main__.py").write_text(program)
        self.env = {
            **os.environ,
            "PULUMI_BACKEND_URL": f"file://{self.backend}?metadata=skip",
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PYTHONPATH": str(ROOT),
        }
        self.good("stack", "init", "test")

    def configure(self, config: Mapping[str, Any], secrets: Mapping[str, str] | None = None) -> None:
        """Write the stack's file; secrets already there stay."""
        path = self.folder / "stacks" / "Pulumi.test.yaml"
        before = cast("dict[str, Any]", yaml.safe_load(path.read_text()) or {})
        old = cast("dict[str, Any]", before.get("config") or {})
        kept = {key: value for key, value in old.items() if "secure" in str(value)}
        before["config"] = {**kept, **{f"sparewheel:{key}": value for key, value in config.items()}}
        path.write_text(json.dumps(before))  # JSON is YAML
        if secrets:
            self.good("config", "set-all", *(f"--secret={name}={value}" for name, value in secrets.items()))

    def run(self, *arguments: str, timeout_seconds: float = TIMEOUT_SECONDS) -> Done:
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive", "--color=never"],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
        )
        if "--show-secrets" not in arguments:
            self.heard[f"run {len(self.heard) + 1}, pulumi {arguments[0]}"] = done.stdout + done.stderr
        return Done(done.returncode, done.stdout + done.stderr)

    def pipeline(self, step: str, **env: str) -> subprocess.CompletedProcess[str]:
        """``python -m pipelines STEP``, as `make ci-STEP` runs it."""
        done = subprocess.run(
            [sys.executable, "-m", "pipelines", step, "--stack", "test", "--project", str(self.folder)],
            cwd=ROOT,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
        self.heard[f"run {len(self.heard) + 1}, pipelines {step}"] = done.stdout + done.stderr
        return done

    def leaks(self) -> list[str]:
        """Where a secret is shown: in what Pulumi said, in the state, its history and its backups."""
        return leaks({**self.heard, **files_under(self.backend)}, self.secrets)

    def good(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.code == 0, f"pulumi {shlex.join(arguments)}\n{done.said}"
        return done.said

    def up(self, *arguments: str) -> str:
        return self.good("up", "--yes", "--skip-preview", *arguments)

    def is_quiet(self) -> None:
        """No change and no drift: what must hold before, during and after a healing."""

        def look(arguments: str) -> None:
            self.good(*arguments.split(), "--expect-no-changes", "--diff")

        with ThreadPoolExecutor() as threads:  # both only look, so they can do so side by side
            list(threads.map(look, ["preview", "refresh --preview-only"]))

    def destroy(self) -> str:
        return self.good("destroy", "--yes", "--skip-preview")

    def state(self) -> dict[str, Any]:
        """The stack's state, secrets encrypted."""
        exported: dict[str, Any] = json.loads(self.good("stack", "export"))
        return exported

    def resources(self, type_ending: str) -> list[dict[str, Any]]:
        found = self.state()["deployment"].get("resources", [])
        return [resource for resource in found if str(resource["type"]).endswith(type_ending)]
