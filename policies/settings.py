"""Levels and exceptions per environment: the model of stacks/policies.yaml, and one message on what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import Field, ValidationError

from policies.model import Level
from stacks.base import Area
from stacks.explain import explain

FILE: Final = Path(__file__).parents[1] / "stacks" / "policies.yaml"


class SettingsError(Exception):
    """The file is wrong; the message lists every setting that is."""


class Kind(StrEnum):
    """What an environment is for. ``production`` has rules of its own."""

    PRODUCTION = "production"
    DEVELOPMENT = "development"


class PolicyException(Area):
    """One finding that is accepted for a while."""

    rule: str = Field(description="name of the rule")
    resource: str = Field(
        min_length=1, description="the resource as a finding names it, such as GpuPool/gpu; * fits any"
    )
    reason: str = Field(min_length=10, description="why it is accepted, for whoever reads it next year")
    until: date = Field(description="last day on which it is accepted, such as 2027-03-31")


class Environment(Area):
    """One environment; its name is the stack's."""

    kind: Kind = Kind.PRODUCTION
    levels: dict[str, Level] = Field(default_factory=dict[str, Level], description="by rule, where not its own level")
    exceptions: list[PolicyException] = Field(default_factory=list[PolicyException])


class Settings(Area):
    """The whole file. An environment that isn't there is production, with no exception."""

    environments: dict[str, Environment] = Field(default_factory=dict[str, Environment])

    def of(self, name: str) -> Environment:
        return self.environments.get(name, Environment())


def parse(raw: object, rules: Iterable[str]) -> Settings:
    """Read the file's content. SettingsError names every wrong setting; a rule that isn't known is one."""
    try:
        settings = Settings.model_validate({} if raw is None else raw)
    except ValidationError as error:
        raise SettingsError("; ".join(explain(error, Settings))) from None
    known = sorted(rules)
    for name, environment in settings.environments.items():
        named = [*environment.levels, *(one.rule for one in environment.exceptions)]
        unknown = next((rule for rule in named if rule not in known), None)
        if unknown is not None:
            msg = f"environments.{name}: there is no rule {unknown}; the rules are {', '.join(known)}"
            raise SettingsError(msg)
    return settings


def load(path: Path, rules: Iterable[str]) -> Settings:
    """Read the file; one that isn't there says nothing, so every environment is production."""
    if not path.exists():
        return Settings()
    try:
        raw: Any = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{path}: can't be read: {str(error).splitlines()[0]}") from None
    try:
        return parse(raw, rules)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None
