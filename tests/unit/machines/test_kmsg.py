"""The host's kernel log reads as the kernel's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.machines.kmsg import WARNING, append_record, start_log, xid_text


def test_a_record_has_the_next_number_and_the_kernels_facility(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    start_log(log, gpus=2)
    before = log.read_text().splitlines()
    line = append_record(log, WARNING, xid_text(79, 1))
    fields, text = line.rstrip("\n").split(";", 1)
    priority, sequence, microseconds, flags = fields.split(",")
    assert (int(priority) >> 3, int(sequence), flags) == (0, len(before), "-")
    assert int(microseconds) >= int(before[-1].split(",")[2])
    assert text == "NVRM: Xid (PCI:0000:29:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    assert log.read_text().splitlines() == [*before, line.rstrip("\n")]


def test_the_driver_names_the_process_that_it_knows() -> None:
    assert xid_text(31, 0, 513, "python3").startswith("NVRM: Xid (PCI:0000:1b:00): 31, pid=513, name=python3, ")


def test_a_gpu_that_no_host_has() -> None:
    with pytest.raises(ValueError, match="GPU 8 asked for; a host has GPUs 0 to 7"):
        xid_text(79, 8)
