"""The search for planted secrets finds each form that a leak has had, and nothing else."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.support.canaries import files_under, leaks

SECRET = "CANARY-machines"


@pytest.mark.parametrize("before", ["", "x", "xy", "user:"])
@pytest.mark.parametrize("after", ["", "z", "zz"])
def test_base64_at_every_place_in_its_group(before: str, after: str) -> None:
    text = json.dumps({"data": base64.b64encode(f"{before}{SECRET}{after}".encode()).decode()})
    assert leaks({"a Secret": text}) == ["a Secret shows CANARY as base64"]
    assert leaks({"a": base64.urlsafe_b64encode(f"{before}a?b>{after}".encode())}, ["a?b>"]) == [
        "a shows a?b> as base64"
    ]


@pytest.mark.parametrize(("content", "how"), [(f"key={SECRET}\n", "it is"), (SECRET.encode().hex(), "hex")])
def test_other_forms(content: str, how: str) -> None:
    assert leaks({"log": content, "clean": "nothing"}) == [f"log shows CANARY as {how}"]


def test_what_is_no_secret_is_not_found() -> None:
    clean = {
        "state": '{"secure": "v1:Q2FuYXJ5:abc="}',
        "words": "canary",
        "b64": base64.b64encode(b"canaries").decode(),
    }
    assert leaks(clean) == []


def test_secrets_that_could_not_be_made_up() -> None:
    assert leaks({"state": "LS0tLS1CRUdJTiBSU0E"}, ["LS0tLS1CRUdJTiBSU0E"]) != []


def test_every_file_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "history.json").write_text(SECRET)
    assert leaks(files_under(tmp_path)) == ["a/b/history.json shows CANARY as it is"]
