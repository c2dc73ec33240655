"""Job processes on a host that stands by: what keeps it from work, in words, and what does not."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import GpuHost, GpuHostSpec, GpuHostStatus
from sparewheel.api.node_health import JobProcesses, NodeHealthStatus
from sparewheel.api.spare_test import SpareTest
from sparewheel.cli.tables import spare_warnings
from sparewheel.remediation.decide.leftovers import TEST_REPORTED, kept_from_work, left_over
from sparewheel.remediation.decide.spare_need import free_spare
from tests.support.incidents import T0


def host(test: SpareTest | None = None, under_way: int | None = None, reason: str = "") -> GpuHost:
    status = GpuHostStatus(slurm_test=test, test_job_id=under_way, reason=reason)
    spec = GpuHostSpec(pool="gpu", host="gpu-3", provider_id="machines://gpu-3")
    return GpuHost(metadata=ObjectMeta(name="gpu-3"), spec=spec, status=status)


def health(*, known: bool = True, **processes: int) -> NodeHealthStatus:
    """``job_7=2``: two processes of job 7."""
    jobs = [JobProcesses(job_id=int(job.removeprefix("job_")), processes=count) for job, count in processes.items()]
    return NodeHealthStatus(jobs=jobs, jobs_observed_time=T0 if known else None)


def test_it_says_whose_processes_are_left_and_what_helps() -> None:
    left = left_over(host(), health(job_8=1, job_7=2, job_6=0), T0)
    assert left == "it takes no work while processes of jobs 7, 8 are alive on it (reboot it if they don't end)"
    assert left_over(host(), health(job_7=0), T0) == "", "it had some a moment ago"


def test_not_known_is_not_none() -> None:
    left = left_over(host(), health(known=False), T0)
    assert (
        left == "it takes no work while its agent can't say whether job processes are alive on it (see the agent's log)"
    )


def test_its_own_test_job_is_meant_to_run_there_and_is_reported_for_a_while_after_its_end() -> None:
    assert left_over(host(under_way=9), health(job_9=1), T0) == ""
    assert "job 7 are" in left_over(host(under_way=9), health(job_9=1, job_7=1), T0)
    ended = host(SpareTest(time=T0, passed=True, job_id=9))
    assert left_over(ended, health(job_9=1), T0 + TEST_REPORTED) == ""
    assert left_over(ended, health(job_9=1), T0 + TEST_REPORTED + timedelta(seconds=1)) != "", "it hangs"
    seldom = health(job_9=1).model_copy(update={"heartbeat_interval_seconds": 60.0})
    assert left_over(ended, seldom, T0 + timedelta(seconds=120)) == "", "its next report but one shows it"
    assert left_over(ended, seldom, T0 + timedelta(seconds=121)) != ""


def test_people_who_ask_for_spares_are_told() -> None:
    left = left_over(host(), health(job_7=2), T0)
    assert spare_warnings([], [host(), host(reason="did not answer"), host(reason=left)]) == [f"spare gpu-3: {left}"]


@given(
    known=st.booleans(),
    processes=st.dictionaries(st.integers(1, 20).map("job_{}".format), st.integers(0, 3), max_size=6),
    own=st.none() | st.integers(1, 20),
)
def test_only_a_report_without_foreign_processes_lets_it_work(
    known: bool, processes: dict[str, int], own: int | None
) -> None:
    left = left_over(host(under_way=own), health(known=known, **processes), T0)
    foreign = any(count for job, count in processes.items() if job != f"job_{own}")
    assert bool(left) == (foreign or not known)
    seen = host(reason=left)
    assert kept_from_work(seen) == bool(left)
    assert free_spare(seen) == (not left), "it is no spare that can be counted on"
