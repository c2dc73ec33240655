"""The list of machines on disk: whole or absent, and a damaged one says how to go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.machines.inventory import load_inventory, save_inventory


def test_what_was_saved_is_loaded_and_nothing_else_is_left(tmp_path: Path) -> None:
    save_inventory(tmp_path, 3)
    assert load_inventory(tmp_path) == save_inventory(tmp_path, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["inventory.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"gpuHosts": null}', b'{"gpuHosts": -1}', b"\x80"])
def test_a_damaged_one_names_the_file_and_the_way_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "inventory.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"inventory\.json is damaged .* 'python -m lab down'"):
        load_inventory(tmp_path)
