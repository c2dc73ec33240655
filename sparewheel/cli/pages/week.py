"""The overview: what needs a person, figures, spares, budgets, each incident with its picture. Pure."""

from __future__ import annotations

from sparewheel.cli.pages.html import Raw, badge, cards, link, moment, page, span, table, text
from sparewheel.cli.pages.incident import fault_words, outcome, story
from sparewheel.cli.pages.strip import strip
from sparewheel.cli.timeline import zero
from sparewheel.cli.week import PoolWeek, Times, Week
from sparewheel.remediation.decide.budget import Use
from sparewheel.remediation.decide.record import is_open


def week_page(week: Week) -> str:
    days = round((week.until - week.since).total_seconds() / 86400, 1)
    title = f"Sparewheel, the last {days:g} days" if days != 1 else "Sparewheel, the last day"
    body = [
        f"<h1>{text(title)}</h1>",
        f'<p class="soft">{moment(week.since)} to {moment(week.until)}</p>',
        _attention(week),
        "<h2>Figures</h2>",
        cards(_figures(week)),
        "<h2>Spares and budgets</h2>",
        table(
            ("pool", "take work", "spares free", "needed", "quarantined", "incidents", "slots", "replaced in window"),
            [*map(_pool, week.pools), _fleet(week)],
            label="spares and budgets",
        ),
        f"<p>{_breaker(week).html}</p>",
        "<h2>Incidents</h2>",
    ]
    if not week.records:
        return page(title, [*body, "<p>None.</p>"])
    rows = [
        (
            link(one.metadata.name, one.metadata.name),
            one.spec.node,
            fault_words(one),
            moment(zero(one)),
            outcome(one),
            len(one.status.jobs) or "-",
            one.status.waiting_for or one.status.message or "-",
        )
        for one in week.records
    ]
    body += [
        strip(week.records, week.since, week.until),
        table(("incident", "node", "fault", "when", "outcome", "jobs", "what"), rows, label="incidents"),
        "<h2>Each incident</h2>",
    ]
    for one in week.records:
        opened = " open" if is_open(one) else ""
        name = text(one.metadata.name)
        head = f'<details id="{name}"{opened}><summary>{name} {outcome(one).html}</summary>'
        body += [head, *story(one, week.until), "</details>"]
    return page(title, body)


def _attention(week: Week) -> str:
    if not week.attention:
        return '<div class="attention none"><strong>Nothing needs a person.</strong></div>'
    items = "".join(f"<li>{text(one)}</li>" for one in week.attention)
    return f'<div class="attention"><strong>Needs a person</strong><ul>{items}</ul></div>'


def _figures(week: Week) -> list[tuple[str, object, str]]:
    return [
        ("incidents", week.incidents, f"{week.healed} healed, {week.open} open, {week.failed} failed"),
        ("drills", week.drills, "faults on purpose"),
        ("jobs hit", week.jobs, f"{week.jobs_resumed} train again, {week.jobs_lost} do not come back"),
        ("fault to fence", span(week.fenced.median), _worst(week.fenced)),
        ("fault to new step", span(week.resumed.median), _worst(week.resumed)),
        ("fault to healed node", span(week.closed.median), _worst(week.closed)),
    ]


def _worst(times: Times) -> str:
    return f"median of {times.count}, worst {span(times.worst)}" if times.count else "none yet"


def _pool(pool: PoolWeek) -> tuple[object, ...]:
    need = pool.need
    return (
        pool.name,
        _of(pool.active, pool.size, short=pool.active < pool.size),
        _of(need.have, need.configured, short=need.short),
        need.needed,
        pool.quarantined,
        pool.incidents,
        *_use(pool.use),
    )


def _fleet(week: Week) -> tuple[object, ...]:
    size, active = sum(one.size for one in week.pools), sum(one.active for one in week.pools)
    free = sum(one.need.have for one in week.pools)
    rest = ("-", sum(one.quarantined for one in week.pools), sum(one.incidents for one in week.pools))
    return (Raw("<strong>fleet</strong>"), f"{active} of {size}", str(free), *rest, *_use(week.fleet))


def _of(have: int, wanted: int, *, short: bool) -> object:
    words = f"{have} of {wanted}"
    return badge(f"{words}, short", "bad") if short else words


def _use(use: Use) -> tuple[object, object]:
    window = span(float(use.window_seconds))
    slots = f"{len(use.holders)} of {use.slots}" if use.slots is not None else f"{len(use.holders)}, no limit"
    claims = f"{use.claims} of {use.per_window}" if use.per_window is not None else f"{use.claims}, no limit"
    return slots, f"{claims} within {window}"


def _breaker(week: Week) -> Raw:
    state = badge("breaker open", "bad") if week.breaker_open else badge("breaker closed", "good")
    return Raw(f"{state.html} {week.fences} of {week.fence_limit} fences used.")
