"""The images for clusters of yours: what they are made of is there, and the script prints each by its digest."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from components.people import ACCOUNTS_FOLDER
from lab.images.catalogue import SLURM
from stacks.platform import Images

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "images").glob("*/Containerfile"))
DIGEST = "sha256:" + "0123456789abcdef" * 4
FAKE = """#!/bin/sh
echo "$*" >> "$CALLS"
case "$*" in *imagetools*) echo "$ANSWER" ;; esac
"""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_what_is_copied_is_there_and_reaches_the_builder(file: Path) -> None:
    copied = re.findall(r"^COPY (\S+) ", file.read_text(), re.MULTILINE)
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert all((ROOT / source).exists() for source in copied)
    assert set(copied) <= set(kept)


def test_accounts_are_looked_up_where_the_stack_mounts_them_as_in_the_images_that_were_tried() -> None:
    """The lines of the data centre's own images, which ran."""
    text = (ROOT / "images/slurm/Containerfile").read_text()
    assert "libnss-extrausers" in SLURM.packages
    assert ACCOUNTS_FOLDER in text
    for words in ("files extrausers/' /etc/nsswitch.conf", "session optional pam_loginuid.so/' /etc/pam.d/sshd",
                  "pam-auth-update --package --enable mkhomedir"):  # fmt: skip
        assert words in text
        assert words in SLURM.script


def build(folder: Path, answer: str = DIGEST, **env: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    tool, calls = folder / "docker", folder / "calls"
    tool.write_text(FAKE)
    tool.chmod(0o755)
    calls.touch()
    done = subprocess.run(
        [ROOT / "images/build.sh"],
        env={"PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(calls), "ANSWER": answer, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done, calls.read_text().splitlines()


def test_all_images_are_built_pushed_and_printed_as_the_stacks_file_wants_them(tmp_path: Path) -> None:
    done, calls = build(tmp_path, REGISTRY="registry.example/wheel", TAG="1.2.3")
    assert done.returncode == 0, done.stderr
    built = [call for call in calls if call.startswith("build ")]
    pushed = [call.removeprefix("push ") for call in calls if call.startswith("push ")]
    assert len(built) == len(pushed) == 6
    assert pushed[0] == "registry.example/wheel/sparewheel:1.2.3"
    assert "registry.example/wheel/slurmd:26.05-ubuntu26.04-1.2.3" in pushed
    (block,) = yaml.safe_load(f"config:\n{done.stdout}")["config"].items()
    assert block[0] == "sparewheel:images"
    images = Images.model_validate(block[1])
    assert images.slurmctld == f"registry.example/wheel/slurmctld:26.05-ubuntu26.04-1.2.3@{DIGEST}"
    assert images.sparewheel == f"registry.example/wheel/sparewheel:1.2.3@{DIGEST}"
    assert images.mariadb.startswith("docker.io/library/mariadb:11@")


def test_for_kind_they_stay_here_under_the_names_of_its_stacks_file(tmp_path: Path) -> None:
    done, calls = build(tmp_path, REGISTRY="sparewheel.local", TAG="dev", PUSH="no")
    assert done.returncode == 0, done.stderr
    assert {call.split()[0] for call in calls} == {"build"}
    printed = yaml.safe_load(f"config:\n{done.stdout}")["config"]
    file = yaml.safe_load((ROOT / "stacks/Pulumi.kind.yaml").read_text())["config"]
    assert printed["sparewheel:images"] == file["sparewheel:images"]


def test_a_registry_that_names_no_digest_is_an_error(tmp_path: Path) -> None:
    done, _ = build(tmp_path, answer="", REGISTRY="registry.example/wheel", TAG="1.2.3")
    assert done.returncode != 0
    assert "error: the registry names no digest for registry.example/wheel/slurmctld" in done.stderr


def test_without_a_registry_it_says_what_to_say(tmp_path: Path) -> None:
    done, calls = build(tmp_path, TAG="1")
    assert done.returncode != 0
    assert "say where to: REGISTRY=" in done.stderr
    assert calls == []
