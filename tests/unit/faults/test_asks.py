"""Who injects a fault hears what it asks for: a code that nobody knows is recorded and nothing follows."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import lab.__main__ as command
from lab.machines.inject import Injection
from lab.machines.inventory import Inventory, build_inventory
from sparewheel.api.enums import Action
from sparewheel.faults.asks import asks_for


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("XID 999", "XID 999 (not in the catalogue) is only recorded: no incident is opened, unless"),
        ("XID 43", "is ignored"),
        ("XID 94", "requeues the node's jobs"),
        ("XID 48", "asks for a reset"),
        ("XID 79", "XID 79 (GPU has fallen off the bus) fences the node and has it replaced"),
    ],
)
def test_what_a_code_asks_for(code: str, says: str) -> None:
    assert says in asks_for(code)


def test_every_action_has_a_word() -> None:
    from sparewheel.faults.asks import _DONE

    assert set(_DONE) == set(Action)


def test_the_data_centre_s_own_command_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def injected(*_: object) -> Injection:
        return Injection("4,1,2,-;NVRM: Xid: 999\n", [])

    def inventory(_: object) -> Inventory:
        return build_inventory(2)

    monkeypatch.setattr(command, "load_inventory", inventory)
    monkeypatch.setattr(command, "inject_xid", injected)
    done = CliRunner().invoke(command.app, ["inject", "xid999", "--host", "gpu-2"])
    assert done.exit_code == 0, done.output
    assert "XID 999 (not in the catalogue) is only recorded: no incident is opened" in done.output
