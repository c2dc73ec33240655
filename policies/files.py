"""Judges files as they are: which environment they are of, which levels hold, what the rules say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from policies.judge import NAMES, Verdict, judge
from policies.model import Given
from policies.read import Document, ReadError
from policies.settings import Kind, load


@dataclass(frozen=True)
class Judged:
    """The verdict on some files, and what it was made of."""

    verdict: Verdict
    environment: str
    resources: int
    production: bool


def judge_documents(documents: Sequence[Document], environment: str, settings: Path, now: datetime) -> Judged:
    """ReadError where the files are of several stacks, SettingsError where the settings are wrong."""
    name = _environment(documents, environment)
    of_stack = load(settings, NAMES).of(name)
    resources = [one for document in documents for one in document.resources]
    given = Given(
        now=now,
        production=of_stack.kind is Kind.PRODUCTION,
        whole=any(document.whole for document in documents),
        records=any(document.records for document in documents),
        spares_needed={pool: need for document in documents for pool, need in document.spares_needed.items()},
    )
    return Judged(judge(resources, of_stack, given), name, len(resources), given.production)


def _environment(documents: Sequence[Document], asked: str) -> str:
    named = sorted({document.environment for document in documents if document.environment})
    if len(named) > 1:
        raise ReadError(f"the files are of several stacks ({', '.join(named)}); judge one stack at a time")
    if asked and named and asked != named[0]:
        raise ReadError(f"--environment says {asked}, the files are of {named[0]}; leave the option out")
    return asked or (named[0] if named else "")
