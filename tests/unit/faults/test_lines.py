"""Every form of a kernel line is read, nothing else is, and nothing raises but MalformedLineError."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparewheel.faults.kmsg import MalformedRecordError, parse_record
from sparewheel.faults.lines import DRIVER_PREFIXES, Finding, LineReader, MalformedLineError, normalise_pci

XID_LINES = [
    ("NVRM: Xid (0000:03:00): 14, Channel 00000001", 14, "0000:03:00"),
    ("NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.", 79, "0000:17:00"),
    ("NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", 79, "0000:17:00"),
    ("NVRM: Xid (PCI:0000:17:00): 45, pid=4242, name=python3, Ch 0000000e", 45, "0000:17:00"),
    ("NVRM: Xid (PCI:0000:9b:00): 119, pid=42, name=nvc:[driver], Timeout after 6s of waiting", 119, "0000:9b:00"),
    ("NVRM: Xid (PCI:0000:b3:00.0): 79, pid=1, name=x", 79, "0000:b3:00"),
    ("NVRM: Xid (PCI:0000:B3:00.0): 79, pid=1, name=x", 79, "0000:b3:00"),
    ("NVRM: Xid (PCI:0000:3f:00): 46", 46, "0000:3f:00"),
    ("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x0)", 149, "0018:01:00"),
    ("NVRM: Xid (PCI:00000008:06:00.0): 48, pid=1, An uncorrectable double bit error", 48, "0008:06:00"),
    ("NVRM: Xid (PCI:0000:17:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error (0x0)", 74, "0000:17:00"),
    ("NVRM: Xid (PCI:0000:17:00): 13, pid=1, name=a,b, Graphics SM Warp Exception on (GPC 1)", 13, "0000:17:00"),
    ("NVRM: Xid (PCI:0000:17:00): 63, pid=1896, Row Remapper: New row marked for remapping", 63, "0000:17:00"),
    ("NVRM: Xid (PCI:0000:61:00 GPU-I:05 GPU-CI:00): 13, pid=1, name=python, Graphics Exception", 13, "0000:61:00"),
    ("NVRM: Xid (PCI:0000:62:00 GPU-I:05): 94, pid=1, name=python, Contained", 94, "0000:62:00"),
    ("NVRM: Xid (PCI:0000:61:00.0 GPU-I:112): 79", 79, "0000:61:00"),
]


def codes(*lines: str) -> list[tuple[str, str]]:
    """``(code, device)`` of all findings of one log."""
    reader = LineReader()
    return [(found.code, found.device) for line in lines if (found := reader.read(line)) is not None]


def one(line: str) -> Finding:
    finding = LineReader().read(line)
    assert finding is not None
    return finding


@pytest.mark.parametrize(("line", "xid", "pci"), XID_LINES)
def test_xid_forms(line: str, xid: int, pci: str) -> None:
    assert codes(line) == [(f"XID {xid}", pci)]


def test_the_instances_of_a_mig_gpu_are_one_device_and_stand_in_the_text() -> None:
    found = [one(line) for line, _, device in XID_LINES if device == "0000:61:00"]
    assert {finding.device for finding in found} == {"0000:61:00"}
    assert "GPU-I:05 GPU-CI:00" in found[0].text


@pytest.mark.parametrize("instance", [" GPU-I:", " GPU-I:x", "GPU-I:05", " GPU-I:05 ", " (x)"])
def test_an_instance_that_cannot_be_read_is_malformed(instance: str) -> None:
    with pytest.raises(MalformedLineError):
        LineReader().read(f"NVRM: Xid (PCI:0000:61:00{instance}): 13, x")


def test_pci_forms_of_one_device_are_one() -> None:
    """NVSentinel PR 1216, gpud PR 1003: a domain of eight digits in the inventory, of four in the log."""
    assert {normalise_pci(a) for a in ("00000008:06:00.0", "PCI:0008:06:00", "0008:06:00")} == {"0008:06:00"}


FIRST, MIDDLE = "NVRM: The NVIDIA GPU {}.0", "NVRM: (PCI ID: 10de:26b5) installed in this system has"
LAST = "NVRM: fallen off the bus and is not responding to commands."


def test_one_line_off_the_bus_has_no_xid() -> None:
    line = "NVRM: GPU 0000:29:00.0: GPU has fallen off the bus."
    assert one(line) == Finding("GPU_OFF_BUS", "0000:29:00", line)


def test_three_lines_off_the_bus_with_other_drivers_between() -> None:
    """NVSentinel 155, gpud PR 1209."""
    noise = "mlx5_core 0000:1a:00.0: cmd_status: ACCESS_REG(0x805) failed"
    lines = [FIRST.format("0000:b3:00"), noise, MIDDLE, "NVRM: Xid (PCI:0000:17:00): 46", LAST, LAST]
    assert codes(*lines) == [("XID 46", "0000:17:00"), ("GPU_OFF_BUS", "0000:b3:00")]


@pytest.mark.parametrize("lines", [(MIDDLE, LAST), (FIRST.format("0000:b3:00"), LAST), (LAST,)])
def test_lines_of_the_three_alone_are_no_fault(lines: tuple[str, ...]) -> None:
    assert codes(*lines) == []


@given(st.data(), st.integers(1, 6))
def test_three_lines_of_several_gpus_however_interleaved_are_each_one_fault(data: st.DataObject, gpus: int) -> None:
    devices = [f"0000:{0x10 + gpu:02x}:00" for gpu in range(gpus)]
    left = {device: [FIRST.format(device), MIDDLE, LAST] for device in devices}
    lines: list[str] = []
    while any(left.values()):
        device = data.draw(st.sampled_from([device for device in devices if left[device]]))
        lines.append(left[device].pop(0))
    assert sorted(codes(*lines)) == [("GPU_OFF_BUS", device) for device in devices]


RECOVERY = "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to "


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("0x0 (None)", 0),
        ("0x1 (GPU Reset Required)", 1),
        ("0x1 (PF FLR)", 1),
        ("0x2 (Node Reboot Required)", 2),
        ("0x2 (OS Reboot)", 2),
        ("0x3 (Drain P2P)", 3),
        ("0x4 (Drain and Reset)", 4),
        ("0x1 (Node Reboot Required)", 1),
        ("0x2", 2),
        ("0x9 (Drain and Reset)", 4),
        ("(Node Reboot Required)", 2),
        ("Drain P2P", 3),
        ("0x9 (Dance)", 9),
    ],
)
def test_154_goes_by_its_code_and_then_by_its_text(text: str, code: int) -> None:
    assert one(RECOVERY + text).recovery_code == code


@pytest.mark.parametrize(
    "broken",
    [
        "NVRM: Xid (PCI:0008:01:00): 154 (",
        "NVRM: Xid (PCI:0008:01:00): 154",
        "NVRM: Xid (PCI:0008:01:00): 154, GPU recovery",
        RECOVERY + "0x" + "f" * 5000,
        "NVRM: Xid (PCI",
        "NVRM: Xid (PCI:0000:17:00): " + "9" * 5000,
        "NVRM: Xid (PCI:0000:zz:00): 79, x",
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): x",
    ],
)
def test_a_line_that_claims_a_fault_and_cannot_be_read_is_malformed(broken: str) -> None:
    """NVSentinel PR 1440."""
    with pytest.raises(MalformedLineError):
        LineReader().read(broken)


@pytest.mark.parametrize("xid", range(144, 151))
def test_nvlink_5_prints_its_class(xid: int) -> None:
    head = f"NVRM: Xid (PCI:0018:01:00): {xid}, "
    assert one(head + "NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x0)").fatal is True
    assert one(head + "pid=4, name=Fatal, RLW_SRC_TRACK  Nonfatal XC1 i0 Link -1 (0x0)").fatal is False
    assert one(head + "something else").fatal is None


def test_sxids_by_their_class_and_their_lines_of_detail_are_no_errors() -> None:
    switch = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): "
    fatal, milder = (
        one(switch + "20034, Fatal, Link 30 LTSSM Fault Up"),
        one(switch + "12028, Non-fatal, Link 32 egress"),
    )
    assert (fatal.code, fatal.device, fatal.fatal) == ("SXID 20034", "0000:05:00", True)
    assert (milder.code, milder.fatal) == ("SXID 12028", False)
    assert one(switch + "20034, Link 30 LTSSM").fatal is None
    assert (
        codes(switch + "20034, Severity 1 Engine instance 30 Sub-engine instance 00", switch + "20034, Data {0x1}")
        == []
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("amdgpu: 2 uncorrectable hardware errors detected in umc block", ["AMD_RAS_UE"]),
        (
            "amdgpu: {17} socket: 0, die: 1, 2 new uncorrectable hardware errors detected in gfx block",
            ["AMD_RAS_UE"],
        ),
        ("2 uncorrectable hardware errors detected in umc block", ["AMD_RAS_UE"]),
        ("amdgpu: 7 correctable hardware errors detected in umc block, no user action is needed", ["AMD_RAS_CE"]),
        ("amdgpu: socket: 0, die: 1, 2 uncorrectable hardware errors detected in total in gfx block", []),
        ("amdgpu: no uncorrectable hardware errors detected in umc block", []),
        ("amdgpu: socket: 0, die: 1, no new uncorrectable hardware errors detected in gfx block", []),
        ("amdgpu: 0 uncorrectable hardware errors detected in umc block", []),
        ("amdgpu: ring gfx test passed", []),
    ],
)
def test_amd_counts_and_its_all_clear(text: str, expected: list[str]) -> None:
    assert codes(f"amdgpu 0000:c3:00.0: {text}") == [(code, "0000:c3:00") for code in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wait_func:1151:(pid 9): 2RST_QP(0x50a) timeout. Will cause a leak of a command resource", "MLX5_FATAL"),
        ("poll_health:739:(pid 0): device's health compromised - reached miss count", "MLX5_FATAL"),
        ("print_health_info:432:(pid 0): synd 0x8: unrecoverable hardware error", "MLX5_FATAL"),
        ("poll_health:795:(pid 0): Fatal error 1 detected", "MLX5_FATAL"),
        ("poll_health:957:(pid 0): Fatal error 5 detected", "MLX5_FATAL"),
        ("print_health_info:423:(pid 0): PCI slot is unavailable", "MLX5_FATAL"),
        ("NIC IFC still 7 after 2000ms.", "MLX5_FATAL"),
        ("mlx5_health_try_recover:8:(pid 5): health recovery flow aborted, PCI reads still not working", "MLX5_FATAL"),
        ("mlx5_health_try_recover:340:(pid 5): health recovery flow aborted, PCI channel offline", "MLX5_FATAL"),
        ("mlx5_health_try_recover:344:(pid 5): health recovery failed", "MLX5_FATAL"),
        ("mlx5_fw_fatal_reporter_err_work:669:(pid 5): Driver is in error state. Unloading", "MLX5_FATAL"),
        ("mlx5_health_try_recover:332:(pid 5): handling bad device here", None),
        ("mlx5_health_try_recover:342:(pid 5): starting health recovery flow", None),
        ("mlx5_health_try_recover:348:(pid 5): health recovery succeeded", None),
        ("mlx5_pcie_event:301:(pid 3): Detected insufficient power on the PCIe slot (27W).", "MLX5_WARNING"),
        ("Port module event[error]: module 0, Cable error, High Temperature", "MLX5_WARNING"),
        ("Port module event: module 1, Cable unplugged", "MLX5_WARNING"),
        ("mlx5_cmd_out_err:812:(pid 7): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2)", None),
        ("Port module event: module 1, Cable plugged", None),
        ("print_health_info:432:(pid 0): synd 0x0: ok", None),
        ("firmware version: 20.31.1014", None),
    ],
)
def test_mlx5(text: str, expected: str | None) -> None:
    assert codes(f"mlx5_core 0000:1a:00.1: {text}") == ([(expected, "0000:1a:00")] if expected else [])


def test_a_stalled_queue_names_no_device() -> None:
    assert codes("NETDEV WATCHDOG: ib0 (mlx5_core): transmit queue 3 timed out") == [("MLX5_WARNING", "")]
    assert codes("NETDEV WATCHDOG: eth0 (e1000): transmit queue 0 timed out") == []


def test_unified_memory_that_needs_a_reboot() -> None:
    line = "NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot to recover."
    assert codes(line) == [("UVM_FATAL", "")]


def test_the_uuid_of_a_gpu_is_learned_from_the_log() -> None:
    reader = LineReader()
    uuid = "GPU-01234567-89ab-cdef-0123-456789abcdef"
    assert reader.read(f"NVRM: GPU at PCI:0000:66:00: {uuid}") is None
    found = reader.read("NVRM: Xid (PCI:0000:66:00.0): 79, x")
    other = reader.read("NVRM: Xid (PCI:0000:67:00): 79, x")
    assert found is not None
    assert other is not None
    assert (found.gpu_uuid, other.gpu_uuid) == (uuid, "")


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: loading NVIDIA UNIX Open Kernel Module",
        "NVRM: GPU 0000:29:00.0: RmInitAdapter failed! (0x22:0x56:742)",
        "",
        "Xid 79",
        "audit: msg='NVRM: Xid (PCI:0000:17:00): 79, x'",
        "systemd[1]: NVRM: Xid (PCI:0000:17:00): 79, x",
    ],
)
def test_other_lines_are_no_faults(line: str) -> None:
    assert codes(line) == []


HEADS = st.sampled_from(
    [*DRIVER_PREFIXES, "NVRM: Xid (", "NVRM: Xid (PCI:0000:17:00): ", "nvidia-nvswitch0: SXid (", ""]
)


@given(st.lists(st.tuples(HEADS, st.text()).map("".join)))
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


def test_a_record_printed_in_one_go_has_several_lines() -> None:
    record = parse_record("3,1,2,-;" + r"\x0a".join([FIRST.format("0000:b3:00"), MIDDLE, LAST]))
    assert codes(*record.texts) == [("GPU_OFF_BUS", "0000:b3:00")]


@pytest.mark.parametrize("line", ["", " SUBSYSTEM=pci", "x,1,2,-;t", "3,1;t", "no semicolon", "-8,1,2,-;t"])
def test_malformed_records(line: str) -> None:
    with pytest.raises(MalformedRecordError):
        parse_record(line)
