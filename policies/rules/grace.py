"""A job's grace and its restart: one number everywhere, and nothing in Slurm's settings that breaks a requeue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from policies.model import Found, Given, Level, Resource, Rule
from policies.values import hidden, listed, number, of_kind, slurm_conf, spec, text
from sparewheel.api.gpu_pool import MAX_GRACE_SECONDS


def grace_within_promise(resource: Resource, _given: Given) -> Iterator[str]:
    """No job is given more than 120 seconds to checkpoint."""
    grace = number(spec(resource), "graceSeconds")
    if resource.kind == "GpuPool" and grace is not None and grace > MAX_GRACE_SECONDS:
        yield f"pool {resource.name}: graceSeconds is {grace:g}; at most {MAX_GRACE_SECONDS} are promised"


def kill_wait_is_the_grace(resources: Sequence[Resource], _given: Given) -> Iterator[Found]:
    """Slurm's KillWait is the grace of every pool."""
    graces = {pool.name: number(spec(pool), "graceSeconds") for pool in of_kind(resources, "GpuPool")}
    for controller in _controllers(resources):
        wait = number(slurm_conf(controller), "killwait")
        if wait is None:
            yield controller, "KillWait is not set, so Slurm gives a job 30 s; set slurm.grace_seconds"
            continue
        if wait > MAX_GRACE_SECONDS:
            yield controller, f"KillWait is {wait:g} s; at most {MAX_GRACE_SECONDS} are promised"
        for pool, grace in graces.items():
            if grace is not None and grace != wait:
                yield (
                    controller,
                    (
                        f"KillWait is {wait:g} s and the grace of pool {pool} is {grace:g} s: jobs are ended early or "
                        "waited for in vain; make them equal by slurm.grace_seconds"
                    ),
                )


def worker_outlives_the_grace(resources: Sequence[Resource], _given: Given) -> Iterator[Found]:
    """A worker pod may live longer than its jobs' grace."""
    waits = [number(slurm_conf(controller), "killwait") for controller in _controllers(resources)]
    graces = [number(spec(pool), "graceSeconds") for pool in of_kind(resources, "GpuPool")]
    longest = max((value for value in (*waits, *graces) if value is not None), default=None)
    for workers in of_kind(resources, "NodeSet"):
        limit = number(spec(workers), "template", "spec", "terminationGracePeriodSeconds")
        if limit is None:
            limit = 30.0  # what Kubernetes gives a pod that doesn't say
        if longest is not None and limit <= longest:
            yield (
                workers,
                (
                    f"its pods are killed after {limit:g} s and a job may checkpoint for {longest:g} s; "
                    "make terminationGracePeriodSeconds longer than the grace"
                ),
            )


def node_returns_by_us_alone(resource: Resource, _given: Given) -> Iterator[str]:
    """ReturnToService is never 2."""
    if resource.kind == "Controller" and slurm_conf(resource).get("returntoservice") == "2":
        yield "ReturnToService is 2: a struck node is back within a second and takes the same job again; set 1"


def requeue_is_quick_and_safe(resource: Resource, _given: Given) -> Iterator[str]:
    """A struck job is requeued, ahead of the queue, and never beside its own first attempt."""
    if resource.kind != "Controller" or hidden(spec(resource).get("extraConf")):
        return
    conf = slurm_conf(resource)
    if conf.get("jobrequeue") == "0":
        yield "JobRequeue is 0: a struck job doesn't start again; set 1"
    expedited = "enable_expedited_requeue" in listed(conf.get("slurmctldparameters", ""))
    if not expedited:
        yield "SlurmctldParameters lacks enable_expedited_requeue: a struck job may lose its healthy nodes to a rival"
    delay = number(listed(conf.get("schedulerparameters", "")), "requeue_delay")
    grace = number(conf, "killwait")
    if delay is None:
        yield "SchedulerParameters lacks requeue_delay: a requeued job waits two minutes; set 1 to 5"
    elif grace is not None and delay > max(grace, 1):
        yield f"requeue_delay is {delay:g} s, longer than the grace of {grace:g} s: a job waits after it has saved"
    elif grace is not None and not expedited and delay < grace:
        yield (
            f"requeue_delay is {delay:g} s, shorter than the grace of {grace:g} s, and expedited requeue is off: "
            "the second attempt starts while the first one saves"
        )


def filter_makes_jobs_expedited(resources: Sequence[Resource], given: Given) -> Iterator[Found]:
    """The submit filter that asks for the expedited requeue is there and switched on."""
    files = [spec_of for one in of_kind(resources, "ConfigMap") for spec_of in _data(one)]
    for controller in _controllers(resources):
        plugins = slurm_conf(controller).get("jobsubmitplugins", "")
        if "lua" not in plugins.split(","):
            yield controller, "JobSubmitPlugins lacks lua: batch jobs don't ask for the expedited requeue"
        elif given.whole and "job_submit.lua" not in files:
            yield controller, "no ConfigMap holds job_submit.lua: slurmctld refuses every job"


def _data(config_map: Resource) -> list[str]:
    data: Any = config_map.inputs.get("data")
    return list(data) if isinstance(data, dict) else []  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]


def _controllers(resources: Sequence[Resource]) -> list[Resource]:
    return [one for one in of_kind(resources, "Controller") if text(one.inputs, "spec", "extraConf")]


RULES: Final = (
    Rule("grace-within-promise", Level.MANDATORY, "the product's promise", check=grace_within_promise),
    Rule("kill-wait-is-the-grace", Level.MANDATORY, "slurm.conf(5), KillWait", whole=kill_wait_is_the_grace),
    Rule(
        "worker-outlives-the-grace",
        Level.MANDATORY,
        "Kubernetes: termination of pods",
        whole=worker_outlives_the_grace,
    ),
    Rule(
        "node-returns-by-us-alone",
        Level.MANDATORY,
        "slurm.conf(5), ReturnToService; measured on Slurm 26.05",
        check=node_returns_by_us_alone,
    ),
    Rule(
        "requeue-is-quick-and-safe",
        Level.MANDATORY,
        "slurm.conf(5), requeue_delay; measured on Slurm 26.05",
        check=requeue_is_quick_and_safe,
    ),
    Rule(
        "filter-makes-jobs-expedited",
        Level.MANDATORY,
        "slurm.conf(5), JobSubmitPlugins; components/files/job_submit.lua",
        whole=filter_makes_jobs_expedited,
    ),
)
