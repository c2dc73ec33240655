"""What a Slurm test job says of a spare, when one is due, and what it runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import GpuHost, GpuHostSpec, GpuHostStatus
from sparewheel.api.spare_test import SpareTest
from sparewheel.remediation.decide.observations import Gone, JobView, Unknown
from sparewheel.remediation.decide.spare_test import Result, due, fresh, job_name, newest, script, verdict
from tests.support.incidents import at

LIMIT = 30


def job(*states: str, **fields: object) -> JobView:
    return JobView(9, frozenset(states), **fields)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("seen", "after", "result", "says"),
    [
        (Unknown("slurmctld is away"), 5, Result.WAITS, "slurmctld is away"),
        (Unknown("slurmctld is away"), 90000, Result.WAITS, "slurmctld"),
        (Gone(), 5, Result.UNTOLD, "does not know its test job"),
        (job("PENDING"), 30, Result.WAITS, "to end"),
        (job("PENDING", state_reason="Reservation"), 31, Result.UNTOLD, "did not start within 30 s (Reservation)"),
        (job("CONFIGURING"), 31, Result.FAILED, "did not end within 30 s"),
        (job("RUNNING"), 30, Result.WAITS, "to end"),
        (job("RUNNING"), 31, Result.FAILED, "did not end within 30 s"),
        (job("RUNNING", start_time=at(25)), 54, Result.WAITS, "to end"),
        (job("RUNNING", start_time=at(25)), 56, Result.FAILED, "did not end within 30 s"),
        (job("RUNNING", start_time=at(-900)), 29, Result.WAITS, "to end"),
        (job("COMPLETED", exit_code=0), 90, Result.PASSED, ""),
        (job("COMPLETED", "COMPLETING", exit_code=0), 5, Result.WAITS, "to end"),
        (job("COMPLETED", exit_code=1), 5, Result.FAILED, "exit code 1"),
        (job("FAILED", exit_code=1), 5, Result.FAILED, "ended as FAILED (exit code 1)"),
        (job("FAILED", exit_code=0, exit_signal=11), 5, Result.FAILED, "signal 11"),
        (job("FAILED", exit_code=127), 5, Result.UNTOLD, "could not run its command"),
        (job("FAILED", exit_code=126), 5, Result.UNTOLD, "could not run its command"),
        (job("NODE_FAIL"), 5, Result.FAILED, "NODE_FAIL"),
        (job("TIMEOUT"), 5, Result.FAILED, "TIMEOUT"),
        (job("OUT_OF_MEMORY"), 5, Result.FAILED, "OUT_OF_MEMORY"),
        (job("CANCELLED"), 5, Result.UNTOLD, "taken off by somebody"),
        (job("PREEMPTED"), 5, Result.UNTOLD, "taken off by somebody"),
    ],
)
def test_what_a_job_says_of_its_spare(seen: JobView | Gone | Unknown, after: float, result: Result, says: str) -> None:
    found = verdict(seen, at(0), LIMIT, at(after))
    assert found.result is result
    assert says in found.why


def passed(after: float, boot: str = "b", *, well: bool = True) -> SpareTest:
    return SpareTest(time=at(after), boot_id=boot, passed=well)


def test_a_pass_counts_for_an_hour_and_is_renewed_after_half_of_it() -> None:
    assert due(None, "b", at(0))
    assert not due(passed(0), "b", at(1799))
    assert due(passed(0), "b", at(1800))
    assert due(passed(0), "another boot", at(1))
    assert fresh(passed(0), "b", at(3599))
    assert not fresh(passed(0), "b", at(3600))
    assert not fresh(passed(0), "another boot", at(1))
    assert not fresh(None, "b", at(0))


def test_what_told_nothing_is_no_pass_and_is_tried_again_soon() -> None:
    untold = passed(0, well=False)
    assert not fresh(untold, "b", at(1))
    assert not due(untold, "b", at(299))
    assert due(untold, "b", at(300))


def host(test: SpareTest | None, since: float | None) -> GpuHost:
    status = GpuHostStatus(slurm_test=test, since=None if since is None else at(since))
    spec = GpuHostSpec(pool="gpu", host="gpu-3", provider_id="machines://gpu-3")
    return GpuHost(metadata=ObjectMeta(name="gpu-3"), spec=spec, status=status)


def test_one_name_for_each_test_and_another_after_each_result_or_repair() -> None:
    names = [job_name(host(*one)) for one in ((None, None), (None, 5), (passed(10), 5), (passed(10), 20))]
    assert len(set(names)) == 4
    assert job_name(host(passed(10), 5)) == names[2]
    assert all(name.startswith("sparewheel-test-gpu-3-") for name in names)


def test_the_newest_of_a_name_counts() -> None:
    assert newest([]) is None
    found = newest([JobView(4), JobView(12), JobView(7)])
    assert found is not None
    assert found.job_id == 12


@pytest.mark.parametrize(("printed", "code"), [(8, 0), (7, 1), (9, 0)])
def test_the_script_counts_what_nvidia_smi_lists(tmp_path: Path, printed: int, code: int) -> None:
    tool = tmp_path / "nvidia-smi"
    lines = "\n".join(f"GPU {index}: NVIDIA H200 (UUID: GPU-{index})\n  MIG 1g" for index in range(printed))
    tool.write_text(f"#!/bin/sh\ncat <<end\n{lines}\nend\n")
    tool.chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(["/bin/sh"], input=script("", 8), text=True, env={"PATH": path}, check=False)
    assert done.returncode == code


def test_a_command_of_ones_own_knows_how_many_gpus_there_should_be() -> None:
    text = script('test "$SPAREWHEEL_GPUS" -eq 4', 4)
    assert subprocess.run(["/bin/sh"], input=text, text=True, check=False).returncode == 0
    assert subprocess.run(["/bin/sh"], input=script("no-such-command", 4), text=True, check=False).returncode == 127
