"""NVIDIA's management library, by the few calls that are needed. What it says is judged elsewhere."""

from __future__ import annotations

import ctypes
import gc
import importlib
import time
from contextlib import suppress
from typing import Any, Final, Protocol

from sparewheel.agent.devices import Gpu
from sparewheel.faults.findings import normalise_pci

STRUCTURES: Final = frozenset(
    (
        "c_nvmlDevice_t",
        "c_nvmlEventData_t",
        "c_nvmlEventSet_t",
        "c_nvmlFieldValue_t",
        "c_nvmlValue_t",
        "nvmlPciInfo_t",
        "struct_c_nvmlDevice_t",
        "struct_c_nvmlEventSet_t",
    )
)
"""The binding's structures that the calls below use."""


class NvmlError(Exception):
    """The library could not be loaded, could not start or did not answer a question."""


class NvmlLibrary(Protocol):
    """One session: ``start``, questions, ``stop``. Every method may hang; each but ``stop`` may raise NvmlError."""

    def start(self) -> None: ...

    def gpus(self) -> list[Gpu]:
        """All GPUs that the driver knows, the lost ones too."""
        ...

    def wait_for_xid(self, timeout_seconds: float) -> tuple[int, str] | None:
        """``(XID, PCI address)`` of the next event, or None when there was none in that time."""
        ...

    def stop(self) -> None:
        """Close the session, and with it the device files. Harmless where none is open."""
        ...


class Pynvml:
    """The real library, loaded at the first ``start``: where there is no driver, nothing is loaded before."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._events: Any = None
        self._open = False
        self._pci_by_index: dict[int, str] = {}

    def start(self) -> None:
        try:
            self._nvml = self._nvml or _lean(importlib.import_module("pynvml"))
        except ImportError as error:
            raise NvmlError(f"the Python binding of NVML is not installed: {error}") from error
        self._ask(self._nvml.nvmlInit)
        self._open = True
        self._events = self._event_set()

    def gpus(self) -> list[Gpu]:
        return [self._gpu(index) for index in range(int(self._ask(self._nvml.nvmlDeviceGetCount)))]

    def wait_for_xid(self, timeout_seconds: float) -> tuple[int, str] | None:
        nvml = self._nvml
        if self._events is None:
            time.sleep(timeout_seconds)
            return None
        try:
            event = nvml.nvmlEventSetWait_v2(self._events, int(timeout_seconds * 1000))
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                return None
            if error.value == nvml.NVML_ERROR_GPU_IS_LOST:  # told by gpus(); the events of the others go on
                time.sleep(timeout_seconds)
                return None
            raise NvmlError(f"NVML's events cannot be waited for: {error}") from error
        return int(event.eventData), self._address(event.device)

    def stop(self) -> None:
        if not self._open:
            return
        self._open = False
        nvml, events, self._events = self._nvml, self._events, None
        try:
            if events is not None:
                nvml.nvmlEventSetFree(events)
            nvml.nvmlShutdown()
        except nvml.NVMLError:
            return  # the session is given up either way; the next start says what is wrong

    def _event_set(self) -> Any:
        """None where no GPU has events."""
        nvml = self._nvml
        events, registered = self._ask(nvml.nvmlEventSetCreate), 0
        for index in range(int(self._ask(nvml.nvmlDeviceGetCount))):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
                registered += 1
            except nvml.NVMLError as error:
                if error.value not in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_GPU_IS_LOST):
                    raise NvmlError(f"events of GPU {index} cannot be watched: {error}") from error
        return events if registered else None

    def _gpu(self, index: int) -> Gpu:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            self._pci_by_index[index] = self._address(handle)
            return Gpu(
                index=index,
                pci=self._pci_by_index[index],
                uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
                serial=_text(self._maybe(nvml.nvmlDeviceGetSerial, handle) or ""),
                recovery_action=self._recovery_action(handle),
                **self._remapping(handle),
                uncorrectable_ecc=self._ecc(handle, nvml.NVML_VOLATILE_ECC),
                uncorrectable_ecc_ever=self._ecc(handle, nvml.NVML_AGGREGATE_ECC),
            )
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
                return Gpu(index=index, pci=self._pci_by_index.get(index, ""), lost=True)
            raise NvmlError(f"GPU {index} cannot be asked: {error}") from error

    def _recovery_action(self, handle: Any) -> int | None:
        """Drivers before R565 don't have it."""
        nvml = self._nvml
        field = getattr(nvml, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
        values = None if field is None else self._maybe(nvml.nvmlDeviceGetFieldValues, handle, [field])
        if not values or values[0].nvmlReturn != nvml.NVML_SUCCESS:
            return None
        return int(values[0].value.uiVal)

    def _remapping(self, handle: Any) -> dict[str, bool]:
        """GPUs before Ampere don't have it."""
        rows = self._maybe(self._nvml.nvmlDeviceGetRemappedRows, handle)
        return {} if rows is None else {"remap_pending": bool(rows[2]), "remap_failure": bool(rows[3])}

    def _ecc(self, handle: Any, counter: int) -> int | None:
        kind = self._nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
        found = self._maybe(self._nvml.nvmlDeviceGetTotalEccErrors, handle, kind, counter)
        return None if found is None else int(found)

    def _address(self, handle: Any) -> str:
        return normalise_pci(_text(self._nvml.nvmlDeviceGetPciInfo(handle).busId))

    def _maybe(self, question: Any, *arguments: Any) -> Any:
        """None where this GPU or driver doesn't have it; another failure is raised as NVML's own."""
        nvml = self._nvml
        try:
            return question(*arguments)
        except nvml.NVMLError as error:
            absent = (
                nvml.NVML_ERROR_NOT_SUPPORTED,
                nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
                nvml.NVML_ERROR_NOT_FOUND,
                nvml.NVML_ERROR_INVALID_ARGUMENT,
                nvml.NVML_ERROR_NO_PERMISSION,
            )
            if error.value in absent:
                return None
            raise

    def _ask(self, question: Any) -> Any:
        try:
            return question()
        except self._nvml.NVMLError as error:
            raise NvmlError(f"NVML cannot be asked: {error}") from error


def _lean(binding: Any) -> Any:
    """Drop the structures of calls that are never made: hundreds of them, a good part of the agent's memory."""
    contents: dict[str, object] = {**binding.__dict__}
    for name, value in contents.items():
        is_structure = isinstance(value, type) and issubclass(value, (ctypes.Structure, ctypes.Union))
        if is_structure and not name.startswith("_") and name not in STRUCTURES:
            delattr(binding, name)
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    return binding


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
