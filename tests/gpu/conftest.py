"""These tests need a machine with an NVIDIA GPU, PyTorch and Triton; elsewhere each says why it was skipped."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _needs_a_gpu() -> None:
    if not list(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("no /dev/nvidia0: this machine has no NVIDIA GPU, or its driver isn't loaded")
    if importlib.util.find_spec("pynvml") is None:
        pytest.skip("the binding of NVML isn't installed: pip install nvidia-ml-py, or put pynvml.py on PYTHONPATH")


@pytest.fixture
def kernel_log() -> Path:
    path = Path("/dev/kmsg")
    try:
        path.open("rb").close()
    except OSError as error:
        pytest.skip(f"the kernel log can't be read here ({error}); it needs root or CAP_SYSLOG")
    return path
