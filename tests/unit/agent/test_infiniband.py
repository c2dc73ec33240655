"""InfiniBand adapters from a made-up sysfs: what is a fault at run time, and what is none at boot."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.agent.infiniband import Adapters, Hca, Port, Sysfs
from sparewheel.agent.kernel_log import open_kernel_log
from sparewheel.agent.link_changes import FLAPS_AN_HOUR, SYMBOL_ERRORS_AN_HOUR, LinkWatch
from sparewheel.agent.report import condition
from sparewheel.agent.watcher import Watcher
from sparewheel.faults.findings import Finding
from tests.support.agent_host import START
from tests.unit.agent.nvml_fake import FakeGpus

ACTIVE, INIT, ARMED, DOWN = (4, 5), (2, 5), (3, 5), (1, 2)
DISABLED = (1, 3)
NAMES = {1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE"}


class Fabric:
    """A host root with adapters ``mlx5_0`` and on, one port each."""

    def __init__(self, root: Path, adapters: int = 2) -> None:
        self.root = root
        self.folder = root / "sys/class/infiniband"
        self.seconds = 0.0
        self.links = LinkWatch()
        self.sysfs = Sysfs(root)
        for number in range(adapters):
            port = self.folder / f"mlx5_{number}/ports/1"
            for name in ("counters", "hw_counters"):
                (port / name).mkdir(parents=True)
            pci = root / f"sys/devices/pci0000:0{number}/0000:0{number}:00.0"
            pci.mkdir(parents=True)
            (self.folder / f"mlx5_{number}/device").symlink_to(pci)
            (port / "link_layer").write_text("InfiniBand\n")
            self.state(ACTIVE, number)
            for counter in ("link_downed", "symbol_error", "local_link_integrity_errors"):
                self.count(counter, 0, number)
            (port / "hw_counters/rnr_nak_retry_err").write_text("0\n")

    def port(self, number: int = 0) -> Path:
        return self.folder / f"mlx5_{number}/ports/1"

    def state(self, state: tuple[int, int], number: int = 0) -> None:
        (self.port(number) / "state").write_text(f"{state[0]}: {NAMES[state[0]]}\n")
        (self.port(number) / "phys_state").write_text(f"{state[1]}: word\n")

    def count(self, counter: str, value: int, number: int = 0) -> None:
        (self.port(number) / "counters" / counter).write_text(f"{value}\n")

    def look(self, seconds: float = 5.0) -> list[tuple[str, str]]:
        self.seconds += seconds
        reading = self.sysfs.read()
        assert reading.hcas is not None
        return [(finding.code, finding.device) for finding in self.links.look(reading.hcas, self.seconds)]


@pytest.fixture
def fabric(tmp_path: Path) -> Fabric:
    return Fabric(tmp_path)


def test_a_healthy_fabric(fabric: Fabric) -> None:
    for _ in range(4):
        assert fabric.look() == []


def test_no_driver_no_adapters(tmp_path: Path) -> None:
    assert Sysfs(tmp_path).read().hcas == ()


def test_an_adapter_is_known_by_its_address(fabric: Fabric) -> None:
    hcas = fabric.sysfs.read().hcas
    assert hcas is not None
    assert [(hca.name, hca.device) for hca in hcas] == [("mlx5_0", "0000:00:00"), ("mlx5_1", "0000:01:00")]
    assert hcas[0].ports[1].counters["rnr_nak_retry_err"] == 0


@pytest.mark.parametrize("spoilt", ["state", "phys_state"])
def test_an_adapter_that_cannot_be_read_is_not_evaluated(fabric: Fabric, spoilt: str) -> None:
    (fabric.port() / spoilt).write_text("\n")
    reading = fabric.sysfs.read()
    assert reading.hcas is None
    assert "mlx5_0" in reading.message


@pytest.mark.parametrize("state", [INIT, ARMED, DOWN])
def test_what_never_served_is_no_fault(fabric: Fabric, state: tuple[int, int]) -> None:
    fabric.state(state)
    for _ in range(10):
        assert fabric.look() == []


def test_a_port_that_is_not_cabled_and_one_that_somebody_disabled(fabric: Fabric) -> None:
    (fabric.port(0) / "link_layer").write_text("Ethernet\n")
    fabric.state(DISABLED, 0)
    fabric.state(DISABLED, 1)
    assert [found for _ in range(6) for found in fabric.look()] == [("IB_PORT_DOWN", "0000:01:00")]


@pytest.mark.parametrize("state", [DOWN, DISABLED])
def test_a_port_that_served_and_is_down_is_told_once(fabric: Fabric, state: tuple[int, int]) -> None:
    fabric.look()
    fabric.state(state)
    assert [fabric.look(), fabric.look(), fabric.look()] == [[], [], [("IB_PORT_DOWN", "0000:00:00")]]
    assert [found for _ in range(5) for found in fabric.look()] == []


def test_a_short_time_out_is_a_flap_and_three_in_an_hour_are_a_fault(fabric: Fabric) -> None:
    fabric.look()
    found: list[tuple[str, str]] = []
    for flap in range(1, FLAPS_AN_HOUR + 1):
        assert found == []
        fabric.state(DOWN)
        fabric.count("link_downed", flap)
        found += fabric.look(3)
        fabric.state(ACTIVE)
        found += fabric.look(3)
    assert found == [("IB_LINK_FLAPPING", "0000:00:00")]


def test_flaps_that_nobody_saw_are_in_the_counter(fabric: Fabric) -> None:
    fabric.look()
    fabric.count("link_downed", FLAPS_AN_HOUR)
    assert fabric.look() == [("IB_LINK_FLAPPING", "0000:00:00")]


def test_three_flaps_in_a_day_are_none(fabric: Fabric) -> None:
    fabric.look()
    for flap in range(1, 12):
        fabric.count("link_downed", flap)
        assert fabric.look(1900) == []


def test_link_training_at_boot_is_no_flap(fabric: Fabric) -> None:
    fabric.state(DOWN)
    fabric.look()
    fabric.count("link_downed", 9)
    assert fabric.look() == []


def test_symbol_errors_by_their_rate(fabric: Fabric) -> None:
    fabric.look()
    fabric.count("symbol_error", SYMBOL_ERRORS_AN_HOUR)
    assert fabric.look() == []
    fabric.count("symbol_error", SYMBOL_ERRORS_AN_HOUR + 1)
    assert fabric.look(1800) == [("IB_LINK_ERRORS", "0000:00:00")]
    assert fabric.look(1800) == [], "no more since"
    fabric.count("symbol_error", 2 * SYMBOL_ERRORS_AN_HOUR)
    assert fabric.look(1801) == [], "those of the hour before are forgotten"


def test_counters_that_never_move(fabric: Fabric) -> None:
    fabric.look()
    fabric.count("local_link_integrity_errors", 1)
    (fabric.port() / "hw_counters/rnr_nak_retry_err").write_text("4\n")
    assert fabric.look() == [("IB_LINK_ERRORS", "0000:00:00")] * 2


def test_counters_that_begin_anew_are_no_errors(fabric: Fabric) -> None:
    fabric.count("symbol_error", 50_000)
    fabric.count("link_downed", 200)
    fabric.look()
    fabric.count("symbol_error", 0)
    fabric.count("link_downed", 0)
    assert fabric.look() == []


def test_an_adapter_that_goes_is_missing_and_told_again_when_it_goes_again(fabric: Fabric) -> None:
    fabric.look()
    kept = fabric.root / "kept"
    for _ in range(2):
        shutil.move(fabric.folder / "mlx5_1", kept)
        assert fabric.look() == [("HCA_MISSING", "0000:01:00")]
        assert fabric.look() == []
        shutil.move(kept, fabric.folder / "mlx5_1")
        assert fabric.look() == []


def watcher(root: Path, expected: int | None = None) -> Watcher:
    (root / "kmsg").touch()
    (root / "proc").mkdir(exist_ok=True)
    return Watcher(
        kernel_log=open_kernel_log(root / "kmsg"),
        gpus=FakeGpus(),
        host_root=root,
        boot_id="boot-a",
        expected_gpus=8,
        overrides={},
        allow_drills=False,
        adapters=Adapters(Sysfs(root), expected),
    )


def test_the_count_is_pinned_for_the_boot_and_outlives_the_agent(fabric: Fabric) -> None:
    first = watcher(fabric.root)
    first.read_devices(START, 0)
    assert (first.seen.expected_hcas, first.seen.seen_hcas) == (2, 2)
    told = {"bootId": "boot-a", "hcas": {"expected": 2, "seen": 2}}
    shutil.rmtree(fabric.folder / "mlx5_1")
    again = watcher(fabric.root)
    again.resume(told)
    again.read_devices(START + timedelta(seconds=5), 5)
    assert [(fault.code, str(fault.action)) for fault in again.seen.faults] == [("HCA_MISSING", "replace")]
    assert condition(again.seen)[0] == "False"
    booted = watcher(fabric.root)
    booted.resume({**told, "bootId": "boot-0"})
    booted.read_devices(START, 0)
    assert (booted.seen.expected_hcas, booted.seen.faults) == (1, [])


def test_a_stack_that_says_how_many_finds_one_missing_at_boot(fabric: Fabric) -> None:
    found = watcher(fabric.root, expected=3)
    found.read_devices(START, 0)
    found.read_devices(START, 5)
    (fault,) = found.seen.faults
    assert "1 of 3 adapters are not seen" in fault.message


PORTS = st.builds(
    Port,
    state=st.integers(0, 5),
    phys_state=st.integers(0, 7),
    link_layer=st.sampled_from(["InfiniBand", "Ethernet"]),
    counters=st.dictionaries(
        st.sampled_from(["link_downed", "symbol_error", "rnr_nak_retry_err"]), st.integers(0, 2**32)
    ),
)


@given(st.lists(st.tuples(PORTS, st.floats(0, 4000)), max_size=40))
def test_no_reading_breaks_the_watch_and_a_port_is_told_down_once_a_time_out(steps: list[tuple[Port, float]]) -> None:
    links, now, told = LinkWatch(), 0.0, 0
    outs = 0
    out_before = False
    for port, seconds in steps:
        now += seconds
        found: list[Finding] = links.look([Hca("mlx5_0", "0000:0c:00", {1: port})], now)
        told += sum(1 for finding in found if finding.code == "IB_PORT_DOWN")
        out = port.state == 1 or port.phys_state == 3
        outs += int(out and not out_before)
        out_before = out
    assert told <= outs
