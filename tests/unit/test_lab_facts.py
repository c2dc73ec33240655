"""What the data centre's tests and demo read from Slurm about a job."""

from __future__ import annotations

import pytest

from lab.demo.facts import job_fields, nodes_batch_first

LINE = "JobId=7 JobName=trap Restarts=0 JobState=RUNNING NodeList={nodes} BatchHost={batch} NumNodes=2 Extra=\n"


def nodes(nodes: str, batch: str) -> list[str]:
    return nodes_batch_first(job_fields(LINE.format(nodes=nodes, batch=batch)))


def test_the_batch_host_is_first_where_the_list_has_another_order() -> None:
    assert nodes("gpu-[0-1],more-0", "gpu-1") == ["gpu-1", "gpu-0", "more-0"]


def test_one_node_is_the_batch_host() -> None:
    assert nodes("gpu-0", "gpu-0") == ["gpu-0"]


@pytest.mark.parametrize(("listed", "batch"), [("(null)", ""), ("gpu-[0-1]", ""), ("gpu-[0-1]", "gpu-2")])
def test_a_job_that_runs_nowhere_is_told(listed: str, batch: str) -> None:
    with pytest.raises(ValueError, match="job 7 runs on"):
        nodes(listed, batch)
