"""One night of a host's kernel log, and the same night in every form that a log is kept in."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

BOOT = datetime(2026, 11, 30, 13, 0, tzinfo=UTC)
OFF_BUS = (
    "NVRM: The NVIDIA GPU 0000:b3:00.0",
    "NVRM: (PCI ID: 10de:26b5) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)


@dataclass(frozen=True)
class Event:
    """``fault``: ``(code, device, action)`` of the fault that this record completes."""

    seconds: float
    text: str
    fault: tuple[str, str, str] | None = None
    kernel: bool = True
    in_one_go: bool = False
    """The record's lines were printed at once; else each is a record."""


XID = "NVRM: Xid (PCI:{}): "
NIGHT = [
    Event(0.0, "Linux version 6.1.0-28-amd64 (gcc-12)"),
    Event(9.5, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04"),
    Event(10.0, "NVRM: GPU at PCI:0000:66:00: GPU-01234567-89ab-cdef-0123-456789abcdef"),
    Event(3600.0, XID.format("0000:66:00") + "31, pid=7, name=python3, Ch 8", ("XID 31", "0000:66:00", "record")),
    Event(3601.0, XID.format("0000:17:00") + "79, pid=8, name=x, GPU has fallen off the bus.", kernel=False),
    Event(3602.0, XID.format("0000:17:00.0") + "48, pid=8, name=a:[b], DBE", ("XID 48", "0000:17:00", "reset_gpu")),
    Event(3602.5, XID.format("0000:17:00") + "95, pid=8, name=x, Uncontained", ("XID 95", "0000:17:00", "record")),
    Event(3602.6, XID.format("0000:17:00") + "45, pid=8, name=x, Ch 0000000e", ("XID 45", "0000:17:00", "ignore")),
    Event(3603.0, OFF_BUS[0]),
    Event(3603.0, "mlx5_core 0000:1a:00.0: mlx5_cmd_out_err:812:(pid 7): ACCESS_REG(0x805) failed, status bad"),
    Event(3603.0, OFF_BUS[1]),
    Event(3603.1, "usb 1-1: new high-speed USB device"),
    Event(3603.1, OFF_BUS[2], ("GPU_OFF_BUS", "0000:b3:00", "replace")),
    Event(3613.0, XID.format("0000:b3:00") + "79, GPU has fallen off the bus."),
    Event(3614.0, XID.format("0000:3f:00") + "46", ("XID 46", "0000:3f:00", "reset_gpu")),
    Event(3615.0, XID.format("0008:01:00") + "154 ("),
    Event(
        3616.0,
        XID.format("0008:01:00") + "154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)",
        ("XID 154", "0008:01:00", "reboot"),
    ),
    Event(
        3617.0,
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        ("SXID 20034", "0000:05:00", "reboot"),
    ),
    Event(3617.0, "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Severity 1 Engine instance 30"),
    Event(3618.0, "amdgpu 0000:c3:00.0: amdgpu: no uncorrectable hardware errors detected in umc block"),
    Event(
        3619.0,
        "amdgpu 0000:c3:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block",
        ("AMD_RAS_UE", "0000:c3:00", "reboot"),
    ),
    Event(
        3620.0,
        "mlx5_core 0000:1a:00.0: poll_health:739:(pid 0): device's health compromised - reached miss count",
        ("MLX5_FATAL", "0000:1a:00", "replace"),
    ),
    Event(
        3700.0,
        "\n".join(OFF_BUS).replace("b3", "b4"),
        ("GPU_OFF_BUS", "0000:b4:00", "replace"),
        in_one_go=True,
    ),
    Event(3701.0, XID.format("0000:66:00") + "31, pid=7, name=python3, Ch 9", ("XID 31", "0000:66:00", "record")),
]

Rendered = tuple[list[str], list[tuple[int, str, str, str]]]
"""Lines, and ``(line, code, device, action)`` of the faults."""
Form = Callable[[Event, int], list[str]]


def render(form: Form) -> Rendered:
    """The night in a form, and what there is to find in it."""
    lines: list[str] = []
    faults: list[tuple[int, str, str, str]] = []
    for number, event in enumerate(NIGHT):
        lines += form(event, number)
        if event.fault is not None:
            faults.append((len(lines), *event.fault))
    return lines, faults


def _dmesg(event: Event, _: int) -> list[str]:
    first, *more = event.text.split("\n")
    return [f"[{event.seconds:12.6f}] {first}", *(" " * 15 + line for line in more)] if event.kernel else []


def _dmesg_human_time(event: Event, _: int) -> list[str]:
    first, *more = event.text.split("\n")
    stamp = (BOOT + timedelta(seconds=event.seconds)).strftime("%a %b %e %H:%M:%S %Y")
    return [f"[{stamp}] {first}", *more] if event.kernel else []


def _dmesg_decoded(event: Event, _: int) -> list[str]:
    first, *more = event.text.split("\n")
    return [f"{'kern' if event.kernel else 'user'}  :err   : [{event.seconds:12.6f}] {first}", *more]


def _dmesg_raw(event: Event, _: int) -> list[str]:
    first, *more = event.text.split("\n")
    return [f"<{3 if event.kernel else 11}>[{event.seconds:12.6f}] {first}", *more]


def _dmesg_iso(event: Event, _: int) -> list[str]:
    first, *more = event.text.split("\n")
    stamp = (BOOT + timedelta(seconds=event.seconds)).strftime("%Y-%m-%dT%H:%M:%S,%f+00:00")
    return [f"{stamp} {first}", *more] if event.kernel else []


def _journal(stamp_format: str) -> Form:
    def form(event: Event, _: int) -> list[str]:
        stamp = (BOOT + timedelta(seconds=event.seconds)).strftime(stamp_format)
        head = f"{stamp} gpu-1 {'kernel' if event.kernel else 'python3[123]'}: "
        first, *more = event.text.split("\n")
        return [head + first, *(" " * len(head) + line for line in more)]

    return form


def _syslog(event: Event, _: int) -> list[str]:
    stamp = (BOOT + timedelta(seconds=event.seconds)).strftime("%b %e %H:%M:%S")
    head = f"kernel: [{event.seconds:12.6f}] " if event.kernel else "python3[123]: "
    return [f"{stamp} gpu-1 {head}{line}" for line in event.text.split("\n")]


def _json(event: Event, _: int) -> list[str]:
    micros = int((BOOT + timedelta(seconds=event.seconds)).timestamp() * 1e6)
    fields = {
        "_TRANSPORT": "kernel" if event.kernel else "syslog",
        "SYSLOG_IDENTIFIER": "kernel",
        "SYSLOG_FACILITY": "0" if event.kernel else "3",
        "__REALTIME_TIMESTAMP": str(micros),
        "_BOOT_ID": "0af1",
        "MESSAGE": list(event.text.encode()) if "a:[b]" in event.text else event.text,
    }
    return [json.dumps(fields)]


def _kmsg(event: Event, number: int) -> list[str]:
    text = event.text.replace("\n", r"\x0a")
    record = f"{3 if event.kernel else 11},{number},{int(event.seconds * 1e6)},-;{text}"
    return [" SUBSYSTEM=pci", " DEVICE=+pci:0000:17:00.0", record] if number % 3 == 1 else [record]


FORMS: dict[str, Form] = {
    "dmesg": _dmesg,
    "dmesg -T": _dmesg_human_time,
    "dmesg -x": _dmesg_decoded,
    "dmesg -r": _dmesg_raw,
    "dmesg --time-format iso": _dmesg_iso,
    "journalctl": _journal("%b %e %H:%M:%S"),
    "journalctl -o short-iso": _journal("%Y-%m-%dT%H:%M:%S+0000"),
    "journalctl -o short-iso-precise": _journal("%Y-%m-%dT%H:%M:%S.%f+00:00"),
    "journalctl -o short-precise": _journal("%b %e %H:%M:%S.%f"),
    "journalctl -o short-full": _journal("%a %Y-%m-%d %H:%M:%S UTC"),
    "journalctl -o json": _json,
    "syslog": _syslog,
    "kmsg": _kmsg,
}
