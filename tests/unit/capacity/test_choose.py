"""Which spare: the same whatever the order, never an unfit one, and the nearer and better known one first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.api.base import ObjectMeta
from sparewheel.api.gpu_host import Claim, GpuHost, GpuHostSpec, GpuHostStatus, HostPhase
from sparewheel.api.names import GPU_RESOURCE
from sparewheel.capacity.choose import Need, need_of, none_fits, reason_of, spares_in_order, why_unfit
from tests.support.incidents import T0, pool


def host(name: str, **fields: Any) -> GpuHost:
    """``fields`` named as in the spec go there, others into the status."""
    spec = {key: value for key, value in fields.items() if key in GpuHostSpec.model_fields}
    status = {key: value for key, value in fields.items() if key not in spec}
    return GpuHost(
        metadata=ObjectMeta(name=name),
        spec=GpuHostSpec(pool="gpu", host=name, provider_id=f"machines://{name}", **spec),
        status=GpuHostStatus(**status),
    )


HERE = {"instance_type": "h200", "fabric_block": "b1", "nvlink_domain": "n1"}
BAD = host("bad", phase=HostPhase.ACTIVE, **HERE, resources={GPU_RESOURCE: 8, "cpu": 192})
FULL = {GPU_RESOURCE: 8, "cpu": 192}


def order(hosts: list[GpuHost], refused: tuple[str, ...] = ()) -> list[str]:
    found = spares_in_order([BAD, *hosts], need_of(pool(), BAD), now=T0, refused=refused)
    return [one.metadata.name for one in found]


def test_nearness_before_freshness_before_the_name() -> None:
    hosts = [
        host("a-far", **{**HERE, "fabric_block": "b2", "nvlink_domain": ""}, resources=FULL, checked_at=T0),
        host("b-other-domain", **{**HERE, "nvlink_domain": "n2"}, resources=FULL, checked_at=T0),
        host("c-checked-long-ago", **HERE, resources=FULL, checked_at=T0 - timedelta(hours=2)),
        host("d-checked", **HERE, resources=FULL, checked_at=T0 - timedelta(minutes=59)),
        host("e-warm", **HERE, resources=FULL, checked_at=T0, node_name="e-warm"),
        host("f-trouble", **HERE, resources=FULL, checked_at=T0, node_name="f-trouble", reason="could not be reached"),
    ]
    expected = ["e-warm", "d-checked", "c-checked-long-ago", "b-other-domain", "a-far", "f-trouble"]
    assert order(hosts) == expected
    assert order(hosts[::-1]) == expected
    assert order(hosts, ("e-warm",)) == expected[1:]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"instance_type": "a100"}, "it is of type a100, not h200"),
        ({"instance_type": ""}, "it is of type unknown, not h200"),
        ({"resources": {GPU_RESOURCE: 7, "cpu": 192}}, "it has 7 nvidia.com/gpu, not 8"),
        ({"resources": {GPU_RESOURCE: 8, "cpu": 191}}, "it has 191 cpu, not 192"),
        ({"resources": {GPU_RESOURCE: 8}}, "it has no known cpu, not 192"),
        ({"lemon": True}, "it is a lemon"),
        ({"phase": HostPhase.QUARANTINED}, "it is Quarantined"),
        ({"claim": Claim(owner="remediation/x", time=T0)}, "it is claimed by remediation/x"),
    ],
)
def test_what_is_unfit_is_never_chosen_and_the_reason_is_told(fields: dict[str, Any], says: str) -> None:
    spare = host("s", **{**HERE, "resources": FULL, **fields})
    assert order([spare]) == []
    assert none_fits([BAD, spare], need_of(pool(), BAD)) == f"s: {says}"


def test_gpus_that_the_inventory_does_not_declare_are_left_to_the_checks() -> None:
    plain = host("bad", instance_type="h200")
    assert why_unfit(host("s", instance_type="h200"), need_of(pool(), plain)) == ""
    assert why_unfit(host("s", resources={GPU_RESOURCE: 4}), need_of(pool(), None)) == "it has 4 nvidia.com/gpu, not 8"


def test_the_reason_says_what_speaks_for_it_and_what_does_not() -> None:
    need = need_of(pool(), BAD)
    near = host("s", **HERE, resources=FULL, checked_at=T0 - timedelta(minutes=12), node_name="s")
    assert reason_of(near, need, T0) == (
        "same type h200, same NVLink domain n1, same fabric block b1, last checked 12 min ago, in the cluster already"
    )
    far = host("s", instance_type="h200", fabric_block="b2", reason="could not be reached")
    assert reason_of(far, need, T0) == (
        "same type h200, NVLink domain unknown instead of n1, fabric block b2 instead of b1, never checked before, "
        "although it gave trouble (could not be reached)"
    )
    assert reason_of(host("s"), Need(), T0) == "never checked before"


HOSTS = st.lists(
    st.builds(
        host,
        st.integers(0, 30).map("h{}".format),
        instance_type=st.sampled_from(["h200", "a100", ""]),
        fabric_block=st.sampled_from(["b1", "b2", ""]),
        nvlink_domain=st.sampled_from(["n1", "n2", ""]),
        resources=st.dictionaries(st.sampled_from([GPU_RESOURCE, "cpu"]), st.integers(0, 200)),
        phase=st.sampled_from(HostPhase),
        lemon=st.booleans(),
        reason=st.sampled_from(["", "late"]),
        checked_at=st.none() | st.integers(0, 200).map(lambda minutes: T0 - timedelta(minutes=minutes)),
        claim=st.none() | st.just(Claim(owner="remediation/x", time=T0)),
    ),
    unique_by=lambda one: one.metadata.name,
    max_size=8,
)


@given(HOSTS, st.randoms(use_true_random=False))
def test_every_choice_is_fit_and_does_not_depend_on_the_listing(hosts: list[GpuHost], chance: Any) -> None:
    first = order(hosts)
    shuffled = list(hosts)
    chance.shuffle(shuffled)
    assert order(shuffled) == first
    for name in first:
        found = next(one for one in hosts if one.metadata.name == name)
        assert (found.status.phase, found.status.claim, found.status.lemon) == (HostPhase.SPARE, None, False)
        assert found.spec.instance_type == "h200"
        assert found.spec.resources.get("cpu", 0) >= 192
    told = none_fits(hosts, need_of(pool(), BAD))
    assert all(f"{one.metadata.name}: ;" not in f"{told};" or one.metadata.name in first for one in hosts)
