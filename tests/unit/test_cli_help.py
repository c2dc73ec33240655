"""What people expect of a command line: -h, --version, groups, NAMES of arguments, JSON of every table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from sparewheel import __version__
from sparewheel.cli.app import MODULES, every_command, needed

PLAIN = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
TABLES = {
    *("status", "remediations", "timeline", "why", "report", "plan", "spares", "replay", "drill", "breaker"),
    *("host list", "notify test"),
}
"""Commands that show what is, or how something went."""


def commands(group: Any, before: str = "") -> dict[str, Any]:
    """Those of groups too, by their whole names."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        found[f"{before}{name}"] = command
        found |= commands(command, f"{before}{name} ") if hasattr(command, "commands") else {}
    return found


ROOT: Any = typer.main.get_command(every_command())
EVERY = commands(ROOT)


@pytest.mark.parametrize("name", EVERY)
def test_each_command_explains_itself_at_h_and_names_its_arguments_in_capitals(name: str) -> None:
    done = CliRunner().invoke(every_command(), [*name.split(), "-h"], env=PLAIN)
    assert done.exit_code == 0, done.output
    (usage,) = re.findall(r"Usage: (.*)", done.output)
    assert not re.findall(r"\{?\b[a-z_]+\b\}?(?=\}|$)", usage.replace(f"sparewheel {name}", "")), usage


@pytest.mark.parametrize("name", sorted(TABLES))
def test_what_is_shown_to_people_can_be_read_by_scripts(name: str) -> None:
    options = {option for parameter in EVERY[name].params for option in parameter.opts}
    assert {"--output", "-o"} <= options


def test_the_version_is_said_without_loading_any_command() -> None:
    done = CliRunner().invoke(every_command(), ["--version"], env=PLAIN)
    assert (done.exit_code, done.output) == (0, f"sparewheel {__version__}\n")
    assert list(needed(["--version"])) == []


def test_the_first_help_groups_the_commands_by_what_one_wants_and_has_examples() -> None:
    text = CliRunner().invoke(every_command(), ["--help"], env=PLAIN).output
    places = [text.index(f" {panel} ") for panel in ("Look", "Act", "Try", "Set up")]
    assert places == sorted(places)
    assert "sparewheel report --html week.html" in text
    assert set(MODULES) == set(ROOT.commands), "each can be started alone"


def test_a_mistyped_command_gets_the_one_that_was_meant() -> None:
    done = CliRunner().invoke(every_command(), ["statsu"], env=PLAIN)
    assert done.exit_code == 2
    assert "Did you mean 'status'?" in done.output


def test_a_shell_completes_commands() -> None:
    code = "import sys; sys.argv = ['sparewheel']\nfrom sparewheel.cli.app import main\nmain()"
    asked = {"_SPAREWHEEL_COMPLETE": "complete_bash", "COMP_WORDS": "sparewheel re", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["remediations", "report", "replace", "replay"]
