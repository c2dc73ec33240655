"""``/metrics`` in Prometheus' text form: spares and their need, hosts, incidents, how long stages take. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sparewheel.api.gpu_host import GpuHost, HostPhase
from sparewheel.api.remediation import Outcome, Remediation
from sparewheel.remediation.decide.spare_need import Need, free_spare

Labels = tuple[tuple[str, str], ...]
BUCKETS_SECONDS = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)


def render(needs: Sequence[Need], hosts: Iterable[GpuHost], records: Sequence[Remediation], *, leading: bool) -> str:
    """The whole answer. Counts are of the records and hosts there are, so they fall when records are deleted."""
    lines: list[str] = []
    _gauge(lines, "sparewheel_leading", "1 on the controller that leads.", {(): float(leading)})
    states = _states(hosts)
    _gauge(lines, "sparewheel_spares", "Hosts that do not serve, by pool and state.", states)
    needed = {(("pool", need.pool),): float(need.needed) for need in needs}
    _gauge(lines, "sparewheel_spares_needed", "Spares that the pool needs, from its measured failure rate.", needed)
    short = {(("pool", need.pool),): float(need.short) for need in needs}
    _gauge(lines, "sparewheel_spares_short", "1 where fewer spares are free than needed.", short)
    rates = {(("pool", need.pool),): need.rate_per_node_day for need in needs}
    _gauge(lines, "sparewheel_failures_per_node_day", "Estimated failure rate.", rates)
    _gauge(lines, "sparewheel_incidents", "Remediations, by pool, outcome and kind.", _incidents(records))
    _gauge(
        lines,
        "sparewheel_rungs",
        "What was tried on nodes before they were replaced, and how it went.",
        _rungs(records),
    )
    _durations(lines, records)
    return "\n".join(lines) + "\n"


def _states(hosts: Iterable[GpuHost]) -> dict[Labels, float]:
    found: Counter[Labels] = Counter()
    for host in hosts:
        state = _state(host)
        if state:
            found[("pool", host.spec.pool), ("state", state)] += 1
    return {labels: float(count) for labels, count in found.items()}


def _state(host: GpuHost) -> str:
    if host.status.lemon:
        return "lemon"
    if host.status.phase is HostPhase.SPARE:
        return "free" if free_spare(host) else "claimed"
    return "" if host.status.phase in {HostPhase.ACTIVE, HostPhase.GONE} else host.status.phase.value.lower()


def _incidents(records: Sequence[Remediation]) -> dict[Labels, float]:
    found: Counter[Labels] = Counter()
    for record in records:
        kind = "drill" if record.spec.fault.drill else record.spec.trigger.value
        found[("pool", record.spec.pool), ("outcome", record.status.outcome.value), ("kind", kind)] += 1
    return {labels: float(count) for labels, count in found.items()}


def _rungs(records: Sequence[Remediation]) -> dict[Labels, float]:
    found: Counter[Labels] = Counter()
    for record in records:
        for rung in record.status.ladder.rungs:
            if rung.result is not None and not record.spec.fault.drill:
                found[("pool", record.spec.pool), ("rung", rung.kind.value), ("result", rung.result.value)] += 1
    return {labels: float(count) for labels, count in found.items()}


def _durations(lines: list[str], records: Sequence[Remediation]) -> None:
    name = "sparewheel_stage_seconds"
    lines += [f"# HELP {name} Seconds that each stage of a healed incident took.", f"# TYPE {name} histogram"]
    took: dict[str, list[float]] = {}
    for record in records:
        if record.status.outcome is not Outcome.HEALED or record.spec.fault.drill:
            continue
        for stage in record.status.stages:
            if stage.ended_at is not None:
                took.setdefault(stage.name.value, []).append((stage.ended_at - stage.started_at).total_seconds())
    for stage, seconds in sorted(took.items()):
        for bound in BUCKETS_SECONDS:
            count = sum(one <= bound for one in seconds)
            lines.append(_line(f"{name}_bucket", (("stage", stage), ("le", f"{bound:g}")), count))
        lines.append(_line(f"{name}_bucket", (("stage", stage), ("le", "+Inf")), len(seconds)))
        lines.append(_line(f"{name}_sum", (("stage", stage),), sum(seconds)))
        lines.append(_line(f"{name}_count", (("stage", stage),), len(seconds)))


def _gauge(lines: list[str], name: str, text: str, values: dict[Labels, float]) -> None:
    lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
    lines += [_line(name, labels, value) for labels, value in sorted(values.items())]


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{inside}}} {value:g}" if inside else f"{name} {value:g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
