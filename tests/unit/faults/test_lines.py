"""Every form of a kernel line is read, nothing else is, and nothing raises but MalformedLineError."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.faults.kmsg import MalformedRecordError, parse_record
from sparewheel.faults.lines import Finding, LineReader, MalformedLineError, normalise_pci

XID_LINES = [
    ("NVRM: Xid (0000:03:00): 14, Channel 00000001", 14, "0000:03:00"),
    ("NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.", 79, "0000:17:00"),
    ("NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", 79, "0000:17:00"),
    ("NVRM: Xid (PCI:0000:9b:00): 119, pid=42, name=nvc:[driver], Timeout after 6s of waiting", 119, "0000:9b:00"),
    ("NVRM: Xid (PCI:0000:b3:00.0): 79, pid=1, name=x", 79, "0000:b3:00"),
    ("NVRM: Xid (PCI:0000:3f:00): 46", 46, "0000:3f:00"),
    ("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x0)", 149, "0018:01:00"),
]


@pytest.mark.parametrize(("line", "xid", "pci"), XID_LINES)
def test_xid_forms(line: str, xid: int, pci: str) -> None:
    finding = LineReader().read(line)
    assert finding is not None
    assert (finding.xid, finding.pci) == (xid, pci)


def test_one_line_off_the_bus_has_no_xid() -> None:
    finding = LineReader().read("NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.")
    assert finding == Finding(None, "0000:29:00", "NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.")


def test_three_lines_off_the_bus_with_other_drivers_between() -> None:
    reader = LineReader()
    assert reader.read("NVRM: The NVIDIA GPU 0000:b3:00.0") is None
    assert reader.read("mlx5_core 0000:1a:00.0: poll_health: device's health compromised") is None
    assert reader.read("NVRM: (PCI ID: 10de:26b5) installed in this system has") is None
    finding = reader.read("NVRM: fallen off the bus and is not responding to commands.")
    assert finding is not None
    assert (finding.xid, finding.pci) == (None, "0000:b3:00")
    assert reader.read("NVRM: fallen off the bus and is not responding to commands.") is None


def test_154_goes_by_its_code_and_without_one_is_malformed() -> None:
    text = "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)"
    finding = LineReader().read(text)
    assert finding is not None
    assert finding.recovery_code == 2
    for broken in (
        "NVRM: Xid (PCI:0008:01:00): 154 (",
        "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery",
        "NVRM: Xid (PCI",
    ):
        with pytest.raises(MalformedLineError):
            LineReader().read(broken)


@pytest.mark.parametrize(
    "line",
    ["amdgpu 0000:c3:00.0: no uncorrectable hardware errors detected in umc block", "NVRM: loading", "", "Xid 79"],
)
def test_other_lines_are_no_faults(line: str) -> None:
    assert LineReader().read(line) is None


def test_pci_forms_of_one_device_are_one() -> None:
    assert {normalise_pci(a) for a in ("00000008:06:00.0", "PCI:0008:06:00", "0008:06:00")} == {"0008:06:00"}


@given(st.lists(st.text() | st.text().map(lambda t: "NVRM: Xid (" + t) | st.text().map(lambda t: "NVRM: " + t)))
def test_no_text_raises_anything_else(lines: list[str]) -> None:
    reader = LineReader()
    for line in lines:
        try:
            reader.read(line)
        except MalformedLineError:
            continue


def test_kmsg_record() -> None:
    record = parse_record("3,1024,5140900,-;NVRM: Xid (PCI:0000:17:00): 79, x; y\n")
    assert record.from_kernel
    assert (record.level, record.sequence, record.since_boot_us) == (3, 1024, 5140900)
    assert record.text.endswith("x; y")
    assert not parse_record("12,1,2,-;NVRM: Xid (PCI:0000:17:00): 79").from_kernel


@pytest.mark.parametrize("line", ["", " SUBSYSTEM=pci", "x,1,2,-;t", "3,1;t", "no semicolon", "-8,1,2,-;t"])
def test_malformed_records(line: str) -> None:
    with pytest.raises(MalformedRecordError):
        parse_record(line)
