"""A real API server for each module of this tier: each stack brings its own CRDs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.apiserver import running_api_server


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Path of an administrator's kubeconfig."""
    with running_api_server(tmp_path_factory.mktemp("apiserver")) as kubeconfig:
        yield kubeconfig
