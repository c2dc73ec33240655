"""Signatures against vectors that two other tools computed from the published rules."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sparewheel.crusoe.errors import CrusoeError
from sparewheel.crusoe.signing import Credentials, canonical_query, signature, signed_headers

KEY = Credentials("R7p5XctCQMuGlpVBmVdqzA", "HrbZ3VTUb2YNAq53Md1EsA")
WHEN = "2026-01-02T03:04:05Z"
VMS = "/v1/projects/09ae8411-0fbb-411c-898c-2b8f19622ae1/compute/vms/instances"


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("/v1/users/identities", "", "0M1VRGqeHz4HfSp2YHBBh_7LV2yu5fSFQqRd_s9EO28"),
        (VMS, "limit=50&ids=a%2Cb+c", "63uk_2oXs-03QCvguKEGMXlqAimOsQ1dSC_RzWrpgtw"),
        (VMS, "ids=a,b%20c&&limit=50", "63uk_2oXs-03QCvguKEGMXlqAimOsQ1dSC_RzWrpgtw"),
        ("/v1/users/%69dentities", "", "0M1VRGqeHz4HfSp2YHBBh_7LV2yu5fSFQqRd_s9EO28"),
    ],
)
def test_vectors(path: str, query: str, expected: str) -> None:
    assert signature(KEY, "get", path, query, WHEN) == expected


def test_headers_carry_the_time_that_was_signed() -> None:
    headers = signed_headers(KEY, "GET", "/v1/users/identities", "", datetime(2026, 1, 2, 3, 4, 5, 999, tzinfo=UTC))
    assert headers == {
        "X-Crusoe-Timestamp": WHEN,
        "Authorization": f"Bearer 1.0:{KEY.access_key_id}:0M1VRGqeHz4HfSp2YHBBh_7LV2yu5fSFQqRd_s9EO28",
    }


def test_padding_of_the_key_makes_no_difference() -> None:
    padded = Credentials(KEY.access_key_id, f"{KEY.secret_key}==")
    assert signature(padded, "GET", VMS, "", WHEN) == signature(KEY, "GET", VMS, "", WHEN)


@pytest.mark.parametrize(
    ("query", "canonical"),
    [("a", "a="), ("b=2&a=1&b=1", "a=1&b=2&b=1"), ("k=~_.-", "k=~_.-"), ("&&", ""), ("x=%C3%A9", "x=%C3%A9")],
)
def test_canonical_query(query: str, canonical: str) -> None:
    assert canonical_query(query) == canonical


def test_a_semicolon_is_refused() -> None:
    with pytest.raises(ValueError, match="semicolon"):
        canonical_query("a=1;b=2")


def test_a_key_that_is_none_is_named_but_not_shown() -> None:
    with pytest.raises(CrusoeError, match="access key mine is no base64url") as caught:
        signature(Credentials("mine", "se!cret"), "GET", VMS, "", WHEN)
    assert "se!cret" not in str(caught.value)
    assert "se!cret" not in repr(Credentials("mine", "se!cret"))
