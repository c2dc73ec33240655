"""The real binding, where there is no driver: it says so, keeps what its calls need, and stays small."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from sparewheel.agent.nvml import STRUCTURES, NvmlError, Pynvml

MAX_RSS_KB = 40_000
STARTED = """
import ssl
import sparewheel.agent.__main__
from sparewheel.agent.nvml import NvmlError, Pynvml
ssl.create_default_context()
try:
    Pynvml().start()
except NvmlError:
    pass
import pynvml
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")))
"""


@pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]*")), reason="there is a driver here")
def test_without_a_driver_it_says_so() -> None:
    with pytest.raises(NvmlError, match="NVML cannot be asked"):
        Pynvml().start()


def test_nothing_is_loaded_before_it_is_asked() -> None:
    code = "import sys, sparewheel.agent.__main__; print('pynvml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_binding_has_what_the_calls_need() -> None:
    """In a module of its own: what Pynvml drops is gone for the whole process."""
    found = importlib.util.find_spec("pynvml")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    assert set(dir(module)) >= STRUCTURES
    assert module.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION


def test_the_agent_with_the_binding_stays_under_its_limit() -> None:
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True)
    assert int(done.stdout) < MAX_RSS_KB
