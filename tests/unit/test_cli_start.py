"""The command line starts with what the asked command needs, and says the same of it as the whole would."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

from sparewheel.cli.app import MODULES, app_of, every_command, needed


def commands_of(modules: list[str]) -> list[str]:
    """Names in the order in which help shows them."""
    group = typer.main.get_command(app_of(modules))
    return list(getattr(group, "commands"))  # noqa: B009 - a group's, which the type doesn't say


def test_each_command_is_registered_by_the_module_that_is_named_for_it() -> None:
    for module in dict.fromkeys(MODULES.values()):
        assert sorted(commands_of([module])) == sorted(name for name, of in MODULES.items() if of == module)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--hlep"], ["inject-all"]])
def test_what_names_no_command_has_them_all(arguments: list[str]) -> None:
    assert set(needed(arguments)) == set(MODULES.values())


@pytest.mark.parametrize("command", MODULES)
def test_a_command_alone_keeps_its_name_and_its_help(command: str) -> None:
    shown = [
        CliRunner().invoke(app, [command, "--help"], prog_name="sparewheel", env={"TERM": "dumb"})
        for app in (app_of(needed([command])), every_command())
    ]
    assert shown[0].exit_code == 0
    assert shown[0].output == shown[1].output


def test_a_drill_waits_for_no_other_command_s_imports() -> None:
    """Those of `replay` and `pool` are the longest."""
    code = (
        "import sys; sys.argv = ['sparewheel', 'inject', '--help']\n"
        "from sparewheel.cli.app import main\n"
        "try:\n    main()\nfinally:\n    print([m for m in sys.modules if m.startswith('sparewheel.cli.commands.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['sparewheel.cli.commands.inject']"
