"""The incident as a picture: GPU use that falls and comes back, and each stage as a bar under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

COLOURS = {"node": "#3b6ea5", "job": "#2f8f5b", "notified": "#c98a1b"}


@dataclass(frozen=True, slots=True)
class Bar:
    track: str
    stage: str
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True, slots=True)
class Use:
    """GPUs that train at a moment."""

    at_seconds: float
    gpus: int


def gpu_use(step_seconds: Sequence[float], *, gpus: int, window_seconds: float, first: float, last: float) -> list[Use]:
    """From the times of finished steps: the GPUs train while steps follow within ``window_seconds``. Pure."""
    marks = sorted(second for second in step_seconds if first <= second <= last)
    uses = [Use(first, 0)]
    if not marks:
        return [*uses, Use(last, 0)]
    previous: float | None = None
    for mark in marks:
        if previous is None or mark - previous > window_seconds:
            if previous is not None:
                uses.append(Use(previous, 0))
            uses.append(Use(mark if previous is not None else max(first, mark - window_seconds), gpus))
        previous = mark
    if previous is not None and last - previous > window_seconds:
        uses.append(Use(previous, 0))
    return [*uses, Use(last, uses[-1].gpus)]


def draw(path: Path, *, title: str, bars: Sequence[Bar], uses: Sequence[Use], gpus: int) -> None:
    """Write a PNG of 1400 x 800 pixels."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    plot = cast("Any", plt)
    last = max([bar.end_seconds for bar in bars] + [use.at_seconds for use in uses])
    figure, (top, bottom) = plot.subplots(
        2, 1, sharex=True, figsize=(14, 8), height_ratios=[1, 2], constrained_layout=True
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=15)
    top.step([use.at_seconds for use in uses], [use.gpus for use in uses], where="post", color="#2f8f5b", linewidth=2)
    top.fill_between(
        [use.at_seconds for use in uses], [use.gpus for use in uses], step="post", color="#2f8f5b", alpha=0.2
    )
    top.axvline(0, color="#b03030", linestyle="--", linewidth=1)
    top.annotate("fault", (0, gpus), color="#b03030", xytext=(-4, 4), textcoords="offset points", ha="right")
    top.set_ylabel("GPUs that train")
    top.set_ylim(0, gpus * 1.15)
    top.set_yticks(range(0, gpus + 1, max(1, gpus // 4)))
    labels: list[str] = []
    for index, bar in enumerate(bars):
        width = max(bar.end_seconds - bar.start_seconds, last * 0.002)
        bottom.barh(index, width, left=bar.start_seconds, color=COLOURS[bar.track.split(" ")[0]], height=0.7)
        bottom.text(
            bar.start_seconds + width + last * 0.005, index, f"{bar.end_seconds - bar.start_seconds:.1f} s", va="center"
        )
        labels.append(bar.stage if bar.stage == bar.track else f"{bar.track} · {bar.stage}")
    bottom.set_yticks(range(len(bars)), labels)
    bottom.invert_yaxis()
    bottom.axvline(0, color="#b03030", linestyle="--", linewidth=1)
    bottom.set_xlabel("seconds after the fault")
    bottom.set_xlim(left=min(use.at_seconds for use in uses), right=last * 1.08)
    for axis in (top, bottom):
        axis.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plot.close(figure)
