"""A run that ends in an error is reported by its test, not by each output that waited for what failed."""

from __future__ import annotations

import gc
from typing import Any

import pulumi
import pytest

from tests.components.conftest import SECRETS, stack_runner


def test_a_run_that_ends_in_an_error_leaves_nothing_to_be_said(
    raw: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    raw["cluster"] = {"kind": "existing", "kubeconfig_secret": "kubeconfig"}
    with stack_runner() as run, pytest.raises(pulumi.RunError, match="no complete kubeconfig"):
        run(raw, {**SECRETS, "kubeconfig": "hello"})
    gc.collect()
    assert [record.getMessage()[:300] for record in caplog.records if record.name == "asyncio"] == []
