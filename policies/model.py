"""What a rule sees and says: a resource, what is known beside it, a rule, a finding. No engine, no I/O."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

Props = Mapping[str, Any]

SECRET: Final = "[secret]"  # noqa: S105 - what a preview shows in a secret's place
"""Stands where a value is encrypted or hidden."""
UNKNOWN: Final = "[unknown]"
"""Stands where a value is known only once something else was made."""

CONFIG_TYPE: Final = "sparewheel:stack:Config"
"""Type under which a stack's own file is judged."""
STACK_TYPE: Final = "pulumi:pulumi:Stack"


class Level(StrEnum):
    """What a finding does: ``mandatory`` stops, ``advisory`` is told, ``disabled`` isn't looked for."""

    ADVISORY = "advisory"
    MANDATORY = "mandatory"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource: its inputs, and of the stack itself its outputs. ``name`` is Kubernetes' own where it has one."""

    type: str
    name: str
    inputs: Props
    urn: str = ""
    protect: bool = False
    outputs: Props = field(default_factory=dict[str, Any])

    @property
    def kind(self) -> str:
        """The last part of its type, such as ``GpuPool``."""
        return self.type.rpartition(":")[2]

    @property
    def label(self) -> str:
        """How people call it; exceptions name it so."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Given:
    """What is known beside the resources.

    production: the rules that hold there only are asked, too.
    whole: the resources are a whole stack, so what isn't among them isn't there.
    records: ``Remediation`` objects are among the resources.
    spares_needed: by pool, as ``sparewheel spares`` measured it; what isn't there is computed without measurements.
    """

    now: datetime
    production: bool = True
    whole: bool = True
    records: bool = False
    spares_needed: Mapping[str, int] = field(default_factory=dict[str, int])


Check = Callable[[Resource, Given], Iterator[str]]
"""Looks at one resource; yields one sentence for each thing that is wrong."""
Found = tuple[Resource | None, str]
WholeCheck = Callable[[Sequence[Resource], Given], Iterator[Found]]
"""Looks at all resources together; yields which one is wrong (None: the stack) and the sentence."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: a plain function, its level where no environment says another, and why it is one.

    source: what the rule goes back to. production_only: asked in production alone. needs_records: can't be judged
    without the records of incidents. of_outputs: looks at outputs, which are known at the end of a run.
    """

    name: str
    level: Level
    source: str
    check: Check | None = None
    whole: WholeCheck | None = None
    production_only: bool = False
    needs_records: bool = False
    of_outputs: bool = False

    @property
    def sentence(self) -> str:
        """What the rule asks for: the first line of its function."""
        return (inspect.getdoc(self.check or self.whole) or "").partition("\n")[0]

    def run(self, resources: Sequence[Resource], given: Given) -> Iterator[Found]:
        """Every sentence of the rule about these resources."""
        if self.check is not None:
            for resource in resources:
                for text in self.check(resource, given):
                    yield resource, text
        if self.whole is not None:
            yield from self.whole(resources, given)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. ``excepted``: the reason of the exception that covers it; empty: none does."""

    rule: str
    level: Level
    resource: str
    urn: str
    sentence: str
    excepted: str = ""
