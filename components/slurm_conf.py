"""The text of Slurm's configuration files: pure functions of the stack's config."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from components.node_checks import health_check_lines
from stacks.slurm import Slurm

OPERATORS_PARAMETERS: Final = ("enable_configless", "reconfig_on_restart")
"""What the operator puts into SlurmctldParameters itself; our line replaces its line, so they're named again."""

EVENTS: Final = "batch_sched_delay"
"""Slurm's name for how long slurmctld may rest after an event, such as a reservation's end, before it schedules.

By default 3 s: a struck job would wait for the next look at the whole queue instead.
"""
JOB_SUBMIT: Final = Path(__file__).parent / "files" / "job_submit.lua"


def slurm_conf(slurm: Slurm) -> str:
    """Lines that follow the operator's own in slurm.conf; the user's come last and win."""
    lines = {
        # A job keeps its processes this long after SIGTERM: its time to checkpoint.
        "KillWait": slurm.grace_seconds,
        # Never 2: a struck node would come back by itself and take the same job again half a second later.
        "ReturnToService": 1,
        "JobRequeue": 1,
        "GresTypes": "gpu",
        "AccountingStorageTRES": "gres/gpu",
        "MinJobAge": slurm.min_job_age_seconds,
        "JobSubmitPlugins": "lua",
        "SlurmctldParameters": ",".join(
            # Expedited requeue (Slurm >= 25.11): a struck job keeps its healthy nodes and starts before its rivals.
            [*OPERATORS_PARAMETERS, "enable_expedited_requeue", *slurm.slurmctld_parameters]
        ),
        "SchedulerParameters": ",".join(
            [
                f"requeue_delay={slurm.requeue_delay_seconds}",
                f"sched_interval={slurm.sched_interval_seconds}",
                f"bf_interval={slurm.sched_interval_seconds}",
                *([] if _given(slurm.scheduler_parameters, EVENTS) else [f"{EVENTS}=1"]),
                # A job whose node fails its Prolog starts on another one, instead of waiting for a person.
                "nohold_on_prolog_fail",
                *slurm.scheduler_parameters,
            ]
        ),
        **(health_check_lines() if slurm.node_checks else {}),
    }
    return "\n".join([*(f"{key}={value}" for key, value in lines.items()), *slurm.extra_conf])


def _given(parameters: list[str], name: str) -> bool:
    """Slurm reads the first of two: ours must not stand before a user's own."""
    return any(item.partition("=")[0].lower() == name for item in parameters)


def gres_conf(slurm: Slurm) -> str:
    """How slurmd finds GPUs: by NVIDIA's library, or by device files where it can't be asked."""
    if slurm.gpu_files is None:
        return "AutoDetect=nvidia\n"
    return f"AutoDetect=off\nName=gpu File={slurm.gpu_files}\n"


def extra_files(slurm: Slurm) -> dict[str, str]:
    """The files beside slurm.conf, by name."""
    files = {"gres.conf": gres_conf(slurm), "job_submit.lua": JOB_SUBMIT.read_text("utf-8")}
    if slurm.cgroup_conf:
        files["cgroup.conf"] = "\n".join(slurm.cgroup_conf) + "\n"
    return files
