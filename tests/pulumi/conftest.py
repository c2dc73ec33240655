"""A real API server for each module of this tier: each stack brings its own CRDs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.api_server import running_api_server
from tests.pulumi.stack import ProjectStack


@pytest.fixture(scope="module", autouse=True)
def nothing_shows_a_secret() -> Iterator[None]:
    """After each module: no output of Pulumi and no file of a backend shows a secret that was planted."""
    ProjectStack.made.clear()
    yield
    assert [leak for stack in ProjectStack.made for leak in stack.leaks()] == []


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Path of an administrator's kubeconfig."""
    with running_api_server(tmp_path_factory.mktemp("apiserver")) as kubeconfig:
        yield _whole(kubeconfig)


def _whole(kubeconfig: Path) -> Path:
    """The same with certificates and key inside: Pulumi hands a kubeconfig around as text."""
    config = json.loads(kubeconfig.read_text())
    for section, names in (("clusters", ["certificate-authority"]), ("users", ["client-certificate", "client-key"])):
        entry = config[section][0][section[:-1]]
        for name in names:
            content = (kubeconfig.parent / str(entry.pop(name))).read_bytes()
            entry[f"{name}-data"] = base64.b64encode(content).decode()
    path = kubeconfig.parent / "whole.conf"
    path.write_text(json.dumps(config))
    return path
