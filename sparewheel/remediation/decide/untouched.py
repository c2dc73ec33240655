"""What is said of a job that no incident touched: by what Slurm knows of it, it may not have ended by itself."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

PLATFORM_STATES = ("NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "PREEMPTED")
"""Ends that are neither the program's own, nor its user's, nor its time limit."""


def untouched_words(
    job_id: int,
    restarts: int | None,
    states: AbstractSet[str],
    why_unknown: str = "",
    *,
    own_end: str = "",
    held: str = "",
) -> str:
    """``restarts`` is None where Slurm was not asked or has forgotten the job; nothing is concluded from that.

    ``own_end``: how its last attempt ended (``exit code 3``), where it ended by itself and Slurm holds the job for it.
    ``held``: Slurm's reason, where it holds the job.
    """
    start = f"No incident of the platform touched job {job_id}"
    command = f"`sacct -D -j {job_id} -o JobID,State,ExitCode,NodeList,Reason` lists all its attempts."
    if restarts is None:
        return f"{start}. What Slurm did with it is not known here ({why_unknown}): {command}"
    if own_end and restarts:
        return (
            f"{start}. Attempt {restarts - 1} ended by itself with {own_end}; Slurm requeued the job and holds it. "
            f"Fix what it runs and `scontrol release {job_id}`, or cancel it and submit it again. {command}"
        )
    ended = [state for state in PLATFORM_STATES if state in states]
    found = [f"ended it as {ended[0]}"] if ended else []
    if restarts:
        times = "once" if restarts == 1 else f"{restarts} times"
        found.insert(0, f"requeued it {times} (a node failed, it was preempted, or somebody requeued it)")
    if held:
        found.append(f"holds it ({held}; `scontrol release {job_id}` lets it start)")
    if found:
        return f"{start}, but Slurm {' and '.join(found)}: {command}"
    return f"{start}. If it ended, it ended by itself, by its user or by its time limit: {command}"
