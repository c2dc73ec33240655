"""Reads the stack's config: one model, and one error without a traceback that says all that is wrong."""

from __future__ import annotations

from pathlib import Path

import pulumi
from pulumi.runtime.config import is_config_secret

from stacks.config import ConfigError, StackConfig, area_names, parse


def load() -> StackConfig:
    """The stack's config. ``pulumi.RunError`` lists every wrong setting."""
    bag = pulumi.Config()
    raw: dict[str, object] = {}
    for area in area_names():
        try:
            raw[area] = bag.get_object(area)
        except pulumi.ConfigTypeError:
            raw[area] = bag.get(area)  # plain text where settings belong: the model says so, with all else
        if is_config_secret(bag.full_key(area)):
            text = f"{area}: holds a secret; give the secret a key of its own and name that key here"
            raise pulumi.RunError(text)
    try:
        return parse(raw, lambda name: bag.get_secret(name) is not None, _has_manifests)
    except ConfigError as error:
        raise pulumi.RunError(str(error)) from None


def _has_manifests(path: str) -> bool:
    return any(Path(path).glob("*.yaml"))


def secret(name: str) -> pulumi.Output[str]:
    """A secret of the stack, by its key; ``load`` made sure that it is there."""
    return pulumi.Config().require_secret(name)
