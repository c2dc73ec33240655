"""Node lists in Slurm's short form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.slurm.hostlist import expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("gpu-0", ("gpu-0",)),
        ("gpu-[0-2]", ("gpu-0", "gpu-1", "gpu-2")),
        ("gpu-[0,3-4],login", ("gpu-0", "gpu-3", "gpu-4", "login")),
        ("n[008-011]", ("n008", "n009", "n010", "n011")),
        ("r[1-2]n[3-4]x", ("r1n3x", "r1n4x", "r2n3x", "r2n4x")),
        ("a[1],b[2]", ("a1", "b2")),
    ],
)
def test_expand(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize("text", ["gpu-[0-x]", "gpu-[0", "gpu-0]", "gpu-[]", "a[[1]]"])
def test_what_cannot_be_read_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="node list"):
        expand(text)


@given(st.lists(st.integers(0, 9999), min_size=1, max_size=20, unique=True))
def test_every_number_comes_out(numbers: list[int]) -> None:
    text = f"gpu-[{','.join(map(str, numbers))}]"
    assert expand(text) == tuple(f"gpu-{number}" for number in numbers)
