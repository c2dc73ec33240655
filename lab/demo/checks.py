"""What the demo promises, one check each. Pure: facts in, verdicts out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.demo.facts import Facts
from sparewheel.api.gpu_host import HostPhase
from sparewheel.api.remediation import NodeStage, Outcome
from training.resumable.progress import Step

STAGES = (NodeStage.DETECTED, NodeStage.FENCED, NodeStage.DRAINED, NodeStage.REPLACED, NodeStage.CLOSED)


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    passed: bool
    detail: str


Verdict = tuple[bool, str]


def resumed_by_itself(facts: Facts) -> Verdict:
    job = facts.job
    if job is None or job.resumed_at is None:
        return False, f"job {facts.struck.job_id} has no resume in the record"
    return True, f"attempt {job.attempt_after} took its first new step {job.first_step}"


def steps_lost(facts: Facts) -> Verdict:
    """At most one: every rank that lives saves at SIGTERM."""
    job = facts.job
    if job is None or job.attempt_after is None or job.resumed_from_step is None:
        return False, "the new attempt did not say where it resumed"
    before = facts.last_step_before(job.attempt_after)
    lost = before - job.resumed_from_step
    return 0 <= lost <= 1, f"{lost} steps lost: step {before} was done, resumed from {job.resumed_from_step}"


def same_result(facts: Facts) -> Verdict:
    """Loss and samples of every step equal an uninterrupted run's, to the last bit."""
    known = [step for step in facts.steps if step.step in facts.reference]
    wrong = [step.step for step in known if _result(step) != _result(facts.reference[step.step])]
    missing = [step.step for step in facts.steps if step.step not in facts.reference]
    if wrong or missing:
        return False, f"steps that differ: {wrong[:5]}, steps the uninterrupted run lacks: {missing[:5]}"
    return bool(facts.steps), f"{len({step.step for step in facts.steps})} steps equal to the last bit"


def _result(step: Step) -> tuple[float, str, str]:
    return step.loss, step.samples, step.history


def record_complete(facts: Facts) -> Verdict:
    status = facts.record.status
    ended = {stage.name for stage in status.stages if stage.ended_at is not None}
    missing = [stage.value for stage in STAGES if stage not in ended]
    if missing or status.outcome is not Outcome.HEALED:
        return False, f"outcome {status.outcome.value}, stages without an end: {', '.join(missing) or 'none'}"
    return True, f"all {len(STAGES)} stages have a beginning and an end"


def told_once(facts: Facts) -> Verdict:
    detected = [message for message in facts.messages if message.body.get("event") == "incident.detected"]
    keys = [message.key for message in facts.messages]
    once = len(detected) == 1 and len(keys) == len(set(keys)) and facts.repeats == 0
    return (
        once,
        f"{len(detected)} message of the incident, {len(facts.messages)} messages in all, {facts.repeats} twice",
    )


def bad_host_quarantined(facts: Facts) -> Verdict:
    host = facts.record.status.replacement.bad_host
    phase = facts.hosts[host].status.phase if host in facts.hosts else None
    return phase is HostPhase.QUARANTINED, f"host {host} is {phase.value if phase else 'unknown'}"


def struck_came_first(facts: Facts) -> Verdict:
    """A rival of the same size waited from before the fault: it must not start before the struck job is back."""
    struck, rival = facts.struck.last_start, facts.rival.last_start
    if struck is None or facts.struck.attempts < 2:
        return False, f"job {facts.struck.job_id} did not start again"
    first = rival is None or rival > struck
    return first, f"job {facts.rival.job_id} {'still waits' if rival is None else f'started {rival:%H:%M:%S}'}"


def spare_took_over(facts: Facts) -> Verdict:
    """The spare's own Slurm node joined the job; it was given free once the survivors had saved, not before."""
    record, struck = facts.record.status.replacement, facts.record.spec.slurm_node
    if record.spare_slurm_node is None or record.lifted_at is None:
        return False, "no spare stood by"
    return record.spare_slurm_node != struck, f"{record.spare_slurm_node} took the place of {struck}"


def pulumi_saw_nothing(facts: Facts) -> Verdict:
    red = [name for name, quiet in facts.quiet_checks.items() if not quiet]
    return not red and len(facts.quiet_checks) == 6, ", ".join(red) or f"{len(facts.quiet_checks)} looks, no change"


CHECKS: dict[str, Callable[[Facts], Verdict]] = {
    "the job resumed by itself": resumed_by_itself,
    "at most one step was lost": steps_lost,
    "loss and data order equal an uninterrupted run": same_result,
    "the record is complete": record_complete,
    "people were told once": told_once,
    "the bad host is quarantined": bad_host_quarantined,
    "the struck job came before its rival": struck_came_first,
    "Pulumi saw no change before, during and after": pulumi_saw_nothing,
}


WARM_CHECKS = {"the warm spare took over at the strike": spare_took_over}


def judge(facts: Facts, *, warm: bool = False) -> list[Check]:
    checks = CHECKS | (WARM_CHECKS if warm else {})
    return [Check(name, *check(facts)) for name, check in checks.items()]
