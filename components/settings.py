"""Reads the stack's config: one model, and one error without a traceback that says all that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pulumi
from pulumi.runtime.config import CONFIG, get_config, get_config_env, is_config_secret

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
    raw |= {key: get_config(bag.full_key(key)) or "" for key in _others(bag)}
    try:
        return parse(raw, lambda name: _is_secret(bag.full_key(name)), _has_manifests)
    except ConfigError as error:
        raise pulumi.RunError(str(error)) from None


def _others(bag: pulumi.Config) -> Iterator[str]:
    """Keys of the stack's file that are no area and no secret: mistyped, and else nobody would see it."""
    for key in sorted({*get_config_env(), *CONFIG.get()}):
        name = key.removeprefix(f"{bag.name}:")
        if name != key and name not in area_names() and not is_config_secret(key):
            yield name


def _is_secret(key: str) -> bool:
    """In clear, it would stand in the stack's file for everybody to read; empty, it is of no use."""
    return is_config_secret(key) and bool(str(get_config(key) or "").strip())


def _has_manifests(path: str) -> bool:
    return any(Path(path).glob("*.yaml"))


def secret(name: str) -> pulumi.Output[str]:
    """A secret of the stack, by its key; ``load`` made sure that it is there."""
    return pulumi.Config().require_secret(name)
