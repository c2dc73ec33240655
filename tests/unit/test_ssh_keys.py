"""A public SSH key is read to its end: real ones of each type pass, all that is cut or changed is refused."""

from __future__ import annotations

import base64

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stacks.ssh_keys import rsa_bits, why_no_key


def real(kind: str) -> str:
    key = asyncssh.generate_private_key(kind)  # pyright: ignore[reportUnknownMemberType]  # **kwargs untyped
    return key.export_public_key().decode().strip()


def line(kind: str, *fields: bytes, inside: str = "") -> str:
    parts = ((inside or kind).encode(), *fields)
    body = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return f"{kind} {base64.b64encode(body).decode()}"


ED25519 = real("ssh-ed25519")
KINDS = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")


@pytest.mark.parametrize("kind", KINDS)
def test_a_real_key_passes_with_and_without_its_name(kind: str) -> None:
    assert why_no_key(real(kind)) == ""
    assert why_no_key(f"{real(kind)} ada@laptop, the old one\n") == ""


@pytest.mark.parametrize("bits", [1024, 2048, 3072])
def test_the_length_of_a_real_rsa_key(bits: int) -> None:
    key = asyncssh.generate_private_key("ssh-rsa", key_size=bits)  # pyright: ignore[reportUnknownMemberType]
    assert rsa_bits(key.export_public_key().decode()) == bits


def test_what_is_no_rsa_key_has_no_length() -> None:
    assert [rsa_bits(ED25519), rsa_bits("ssh-rsa AAAA"), rsa_bits("")] == [None, None, None]


@pytest.mark.parametrize(
    "key",
    [
        line("sk-ssh-ed25519@openssh.com", bytes(32), b"ssh:"),
        line("sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", bytes(65), b"ssh:"),
    ],
)
def test_a_key_on_a_token_passes(key: str) -> None:
    assert why_no_key(key) == ""


@given(cut=st.integers(min_value=1, max_value=len(ED25519) - 1))
def test_a_key_that_is_cut_anywhere_is_refused(cut: int) -> None:
    assert why_no_key(ED25519[:cut])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("made by hand", "isn't a public SSH key"),
        ("", "isn't a public SSH key"),
        ("ssh-dss AAAA", "its type is one of"),
        ("ssh-ed25519 AAAA", "cut short"),
        ("ssh-ed25519 !!!!", "cut short"),
        (line("ssh-ed25519", bytes(32), inside="ssh-rsa"), "another type"),
        (line("ssh-ed25519", bytes(31)), "cut short"),
        (line("ssh-ed25519", bytes(32), b"more"), "cut short"),
        (line("ssh-rsa", b"\x01\x00\x01"), "cut short"),
        (line("ssh-rsa", b"", b"\x00"), "cut short"),
        (line("ecdsa-sha2-nistp256", b"nistp384", bytes(97)), "cut short"),
        (f"{ED25519}\n{ED25519}", "isn't a public SSH key"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "the public one"),
    ],
)
def test_what_is_none_is_refused_in_words(text: str, says: str) -> None:
    assert says in why_no_key(text)
