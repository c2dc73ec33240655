"""`python -m policies`: exit codes, table, JSON, and one line for what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from policies.__main__ import main
from policies.judge import ABOUT_EXCEPTIONS, NAMES
from policies.model import Level
from policies.rules import RULES
from policies.settings import FILE, load
from tests.unit.policies import examples as e

ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(main)
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return written(tmp_path, spares=0)


def written(folder: Path, **spec: Any) -> Path:
    path = folder / "pool.yaml"
    body = dict(e.pool(**spec).inputs)
    path.write_text(json.dumps({"apiVersion": "sparewheel.dev/v1alpha1", "kind": "GpuPool", **body}))
    return path


def settings(folder: Path, **fields: Any) -> str:
    path = folder / "policies.yaml"
    path.write_text(json.dumps({"environments": {"try": {"kind": "development", **fields}}}))
    return str(path)


def test_a_mandatory_finding_is_exit_1(manifest: Path) -> None:
    done = run(str(manifest))
    assert done.exit_code == 1
    assert "pool gpu: has no spare" in " ".join(done.output.split())
    assert "not judged: drill-passed-lately" in done.output


def test_nothing_wrong_is_exit_0(tmp_path: Path) -> None:
    done = run(str(written(tmp_path)), "--environment", "try", "--settings", settings(tmp_path))
    assert done.exit_code == 0, done.output
    assert "1 resource(s) of try, judged as development: 0 mandatory, 0 advisory, 0 excepted" in done.output


def test_json(tmp_path: Path, manifest: Path) -> None:
    found = settings(tmp_path, levels={"pool-has-a-spare": "advisory"})
    done = run(str(manifest), "--environment", "try", "--settings", found, "--output", "json")
    assert done.exit_code == 0
    said = json.loads(done.output)
    assert (said["environment"], said["production"], said["stops"], said["resources"]) == ("try", False, False, 1)
    assert [(one["rule"], one["level"]) for one in said["findings"]] == [("pool-has-a-spare", "advisory")]


def test_without_a_file_json_is_one_list_of_all_stacks(tmp_path: Path) -> None:
    found = settings(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"Pulumi.{name}.yaml").write_text("config: {x: 1}\n")
    done = run("--settings", found, "--output", "json")
    assert [one["environment"] for one in json.loads(done.output)] == ["a", "b"]


def test_a_file_of_no_known_kind_is_exit_2(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("just words")
    done = run(str(path))
    assert done.exit_code == 2
    assert "words.txt" in done.output


def test_wrong_settings_are_exit_2(tmp_path: Path, manifest: Path) -> None:
    done = run(str(manifest), "--settings", settings(tmp_path, levels={"no-such": "advisory"}))
    assert done.exit_code == 2
    assert "there is no rule no-such" in done.output


def test_files_of_two_stacks_are_not_mixed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"Pulumi.{name}.yaml").write_text("config: {x: 1}\n")
    done = run(*(str(tmp_path / f"Pulumi.{name}.yaml") for name in ("a", "b")))
    assert done.exit_code == 2
    assert "several stacks (a, b)" in done.output


def test_the_projects_own_file_of_exceptions_is_right() -> None:
    assert load(FILE, NAMES).environments


def test_the_docs_list_every_rule_as_it_is() -> None:
    rows = (ROOT / "docs" / "policies.md").read_text("utf-8").splitlines()
    for rule in RULES:
        where = " in production" if rule.production_only else ""
        row = f"| `{rule.name}` | {rule.level}{where} | {rule.sentence} | {rule.source} |"
        assert row in rows, row
    for name, (level, says) in ABOUT_EXCEPTIONS.items():
        assert any(row.startswith(f"| `{name}` | {level} | {says} |") for row in rows), name
    assert sum(row.startswith("| `") and row.count("|") == 5 for row in rows) == len(RULES) + len(ABOUT_EXCEPTIONS)


def test_names_are_unique_and_sentences_end() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for rule in RULES:
        assert (rule.check is None) != (rule.whole is None)
        assert rule.sentence.endswith("."), rule.name
        assert rule.level is not Level.DISABLED


def stack_file(folder: Path, name: str, **config: Any) -> None:
    (folder / f"Pulumi.{name}.yaml").write_text(
        json.dumps({"config": {f"sparewheel:{k}": v for k, v in config.items()}})
    )


def test_without_a_file_each_stacks_file_is_judged_by_itself(tmp_path: Path) -> None:
    place = settings(tmp_path)
    stack_file(tmp_path, "try", users=[])
    stack_file(tmp_path, "prod", users=[])
    done = run("--settings", place)
    assert done.exit_code == 0, done.output
    assert "of prod, judged as production" in done.output
    assert "of try, judged as development" in done.output
    stack_file(tmp_path, "prod", slurm={"password": "CANARY"})
    assert run("--settings", place).exit_code == 1
    (tmp_path / "Pulumi.prod.yaml").write_text("a: [")
    assert run("--settings", place).exit_code == 2


def test_where_there_is_no_stacks_file_it_says_so(tmp_path: Path) -> None:
    done = run("--settings", settings(tmp_path))
    assert done.exit_code == 2
    assert "there is no stack's file in" in done.output


def test_the_files_that_are_here_keep_the_rules() -> None:
    assert run().exit_code == 0
