"""The environment of ``make``: bytecode is kept, and the data centre's kubeconfig is there for who has no cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.toolchain.environment import cluster, variables


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data centre that is up, a home without a kubeconfig."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPAREWHEEL_LAB_STATE", str(tmp_path))
    (tmp_path / "admin.conf").touch()
    return tmp_path


def test_the_data_centre_s_where_there_is_no_other(lab: Path) -> None:
    assert cluster() == {"KUBECONFIG": str(lab / "admin.conf")}


def test_nothing_while_it_is_down(lab: Path) -> None:
    (lab / "admin.conf").unlink()
    assert cluster() == {}


def test_one_s_own_stays(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = lab / "home" / ".kube" / "config"
    own.parent.mkdir(parents=True)
    own.touch()
    assert cluster() == {}
    own.unlink()
    monkeypatch.setenv("KUBECONFIG", "/mine")
    assert cluster() == {}


def test_python_keeps_what_it_compiled_whatever_the_caller_s_shell_says(tmp_path: Path) -> None:
    (tmp_path / "module.py").touch()
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables(tmp_path / "venv"), "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", "import module"], env=env, check=True)
    assert list((tmp_path / "__pycache__").glob("module.*.pyc"))
