"""One record of /dev/kmsg: ``priority,sequence,microseconds,flags[,...];text``.

Source: Linux, Documentation/ABI/testing/dev-kmsg.
"""

from __future__ import annotations

from dataclasses import dataclass

FACILITY_KERNEL = 0
MAX_64_BITS = 2**63 - 1
"""What NodeHealth can hold of a sequence number; the kernel counts from 0."""


class MalformedRecordError(ValueError):
    """The line is not a kmsg record."""


@dataclass(frozen=True, slots=True)
class KernelRecord:
    facility: int
    """syslog facility; 0 is the kernel itself. User space cannot write 0: the kernel turns it into 1."""
    level: int
    sequence: int
    since_boot_us: int
    text: str

    @property
    def from_kernel(self) -> bool:
        return self.facility == FACILITY_KERNEL

    @property
    def texts(self) -> list[str]:
        """The record's lines: what was printed in one go stays one record, its line ends escaped."""
        return self.text.split("\\x0a") if "\\x0a" in self.text else [self.text]


def parse_record(line: str) -> KernelRecord:
    """Read one record. Continuation lines (they start with a space) and anything else raise MalformedRecordError."""
    head, separator, text = line.rstrip("\n").partition(";")
    fields = head.split(",")
    if not separator or len(fields) < 4 or head.startswith(" "):
        raise MalformedRecordError(f"not a kmsg record: {line[:80]!r}")
    try:
        priority, sequence, since_boot_us = int(fields[0]), int(fields[1]), int(fields[2])
    except ValueError as error:
        raise MalformedRecordError(f"kmsg record with a head that is no number: {line[:80]!r}") from error
    if priority < 0 or not 0 <= sequence <= MAX_64_BITS or not 0 <= since_boot_us <= MAX_64_BITS:
        raise MalformedRecordError(f"kmsg record with a number out of range: {line[:80]!r}")
    return KernelRecord(priority >> 3, priority & 7, sequence, since_boot_us, text)
