"""The workers' entry point: Slinky's quoted arguments reach slurmd as they are meant."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.images.recipes import REPOSITORY

SLINKY = ["-Z", "--conf-server", "slurm-controller.slurm:6817", "--conf"]


def started_with(tmp_path: Path, topology: str, conf: str) -> list[str]:
    """What slurmd is started with when a worker's pod has these arguments."""
    (tmp_path / "slurmd").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    for name in ("mkdir", "mknod", "sshd"):
        (tmp_path / name).write_text("#!/bin/sh\n")
    for name in ("slurmd", "mkdir", "mknod", "sshd"):
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["bash", str(REPOSITORY / "lab/images/entrypoints/slurmd"), *SLINKY, conf],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "SLINKY_TOPOLOGY": topology},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("topology", "conf", "wanted"),
    [
        ("", """'Features=gpu Gres=gpu:8 Topology='"$SLINKY_TOPOLOGY"''""", "Features=gpu Gres=gpu:8 "),
        ("", """'Topology='"$SLINKY_TOPOLOGY"' Features=gpu'""", " Features=gpu"),
        ("tree:leaf-1", """'Features=gpu Topology='"$SLINKY_TOPOLOGY"''""", "Features=gpu Topology=tree:leaf-1"),
        ("", "'Features=gpu'", "Features=gpu"),
    ],
)
def test_arguments_are_unquoted_and_an_empty_topology_goes(
    tmp_path: Path, topology: str, conf: str, wanted: str
) -> None:
    assert started_with(tmp_path, topology, conf) == ["-D", *SLINKY, wanted]
