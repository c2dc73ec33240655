"""The tables of other people's reports: every test that they name exists, and every row has its link and its reason."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\[[^\]]+\]\((https://[^)\s]+)\)")


def rows(file: str) -> list[list[str]]:
    """The cells of each row, heads left out."""
    found = [line.strip() for line in (ROOT / "docs" / file).read_text("utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in found]
    return [row for row in cells if row[0] not in {"report", "---"}]


@cache
def names_in(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


TESTED, NOT_APPLICABLE = rows("reports.md"), rows("not-applicable.md")


@pytest.mark.parametrize("row", TESTED, ids=lambda row: row[1])
def test_every_test_that_a_report_names_exists(row: list[str]) -> None:
    names = re.findall(r"`([^`]+)`", row[2])
    assert names
    for name in names:
        path, _, test = name.partition("::")
        file = ROOT / path
        assert file.is_file(), f"{path}: moved? then name its new place in docs/reports.md"
        assert test in names_in(file), f"{path} has no {test}; name the test that took its place in docs/reports.md"


def test_every_report_has_its_link_and_one_fate() -> None:
    assert len(TESTED) > 50
    assert len(NOT_APPLICABLE) > 10
    for row in (*TESTED, *NOT_APPLICABLE):
        assert LINK.search(row[0]), row
    links = [[link for row in table for link in LINK.findall(row[0])] for table in (TESTED, NOT_APPLICABLE)]
    assert not set(links[0]) & set(links[1])


PULUMI = {
    "pulumi/pulumi": (
        2012, 2721, 3012, 4265, 6465, 7453, 7682, 7795, 7809, 7960, 8459, 8559, 10040, 12259, 12401, 12738, 13830,
        16175, 24338,
    ),
    "pulumi/pulumi-kubernetes": (
        694, 1148, 1567, 1568, 1739, 2236, 2300, 2374, 2404, 2926, 3027, 3179, 3284, 3590, 4019,
    ),
    "pulumi/pulumi-command": (104, 199),
    "pulumi/pulumi-kubernetes-operator": (786, 1105),
    "pulumi/pulumi-policy": (258,),
    "pulumi/docs": (14437,),
    "pulumi/pulumi-azure-native": (4516,),
    "aws/karpenter-provider-aws": (6870,),
}  # fmt: skip
"""What users of Pulumi reported and what was gone through: none may get lost between the two tables."""


def test_every_report_of_pulumis_users_stands_in_one_of_the_tables() -> None:
    links = {link for row in (*TESTED, *NOT_APPLICABLE) for link in LINK.findall(row[0])}
    wanted = {f"https://github.com/{repository}/issues/{one}" for repository, all_ in PULUMI.items() for one in all_}
    assert wanted - links == set()


def test_what_does_not_apply_says_why_in_a_sentence() -> None:
    for row in NOT_APPLICABLE:
        assert len(row) == 2
        assert re.fullmatch(r"[A-Z].{20,}\.", row[1]), row
