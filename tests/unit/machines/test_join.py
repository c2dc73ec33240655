"""What host-join takes, and what it tells the kubelet."""

from __future__ import annotations

import argparse

import pytest

from lab.machines.guest.join import kubelet_config, parse_label, parse_taint
from lab.machines.guest.state import Membership


@pytest.mark.parametrize(
    ("text", "taint"),
    [
        ("a.dev/joining=true:NoSchedule", {"key": "a.dev/joining", "value": "true", "effect": "NoSchedule"}),
        ("spare:NoExecute", {"key": "spare", "value": "", "effect": "NoExecute"}),
        ("spare=:PreferNoSchedule", {"key": "spare", "value": "", "effect": "PreferNoSchedule"}),
    ],
)
def test_taints(text: str, taint: dict[str, str]) -> None:
    assert parse_taint(text) == taint


@pytest.mark.parametrize("text", ["spare", "spare=true", "spare=true:Never", "=true:NoSchedule", ""])
def test_malformed_taints_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not key=value:Effect"):
        parse_taint(text)


def test_malformed_labels_are_refused() -> None:
    assert parse_label("pool=") == "pool="
    with pytest.raises(argparse.ArgumentTypeError, match="'pool' is not key=value"):
        parse_label("pool")


def test_the_kubelet_registers_with_the_taints_and_the_hosts_identity() -> None:
    config = kubelet_config(Membership("gpu-1", ["pool=a"], ["spare=true:NoSchedule"]))
    assert config["registerWithTaints"] == [{"key": "spare", "value": "true", "effect": "NoSchedule"}]
    assert config["providerID"] == "machines://gpu-1"
    assert config["authentication"]["anonymous"]["enabled"] is False
