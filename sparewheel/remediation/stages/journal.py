"""One incident's record in the API server. Every change is a pure function, applied to the newest version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sparewheel.api.base import lean
from sparewheel.api.remediation import Remediation, RemediationStatus
from sparewheel.kube.port import REMEDIATION, ConflictError, Kube, KubeError, NotFoundError
from sparewheel.remediation.decide.record import Change

_TRIES = 8


class RecordGoneError(Exception):
    """The record was deleted; nothing more may be done in its name."""


class Journal:
    """Reads and writes one Remediation. Safe for the incident's concurrent tracks.

    ``remediation`` may come from a cache that lags behind, so it is read again before the first write, unless it is
    ``fresh`` from the API server.
    """

    def __init__(self, kube: Kube, remediation: Remediation, *, fresh: bool = False) -> None:
        self._kube = kube
        self._current = remediation
        self._lock = asyncio.Lock()
        self._stored = remediation.status
        """As it stands in the API server; ``_current`` has what is staged on top."""
        self._certain = fresh
        self._staged: list[Change] = []
        self.changed: Callable[[Remediation], None] | None = None
        """Told each new version that is seen or written here."""

    def _show(self, record: Remediation) -> None:
        self._current = record
        if self.changed is not None:
            self.changed(record)

    @property
    def record(self) -> Remediation:
        return self._current

    @property
    def status(self) -> RemediationStatus:
        return self._current.status

    @property
    def name(self) -> str:
        return self._current.metadata.name

    def doubt(self) -> None:
        """Somebody else wrote to the record: read it again before it is next decided by."""
        self._certain = False

    @property
    def certain(self) -> bool:
        """False when the record may be older than another's last write."""
        return self._certain

    async def refresh(self) -> None:
        """Read the record again; needed where it is not known whether the last write took effect."""
        async with self._lock:
            await self._read()

    async def make_certain(self) -> None:
        """What we decide by is no older than the record in the API server; what is staged on top stays staged."""
        async with self._lock:
            if not self._certain:
                await self._read()

    async def make_sure(self) -> None:
        """The record as it stands in the API server is what we hold: before an effect that shows in nothing else."""
        await self.make_certain()
        await self.flush()

    async def _read(self) -> None:
        metadata = self._current.metadata
        try:
            body = await self._kube.get(REMEDIATION, metadata.name, metadata.namespace)
        except NotFoundError as error:
            raise RecordGoneError(f"Remediation {metadata.name} was deleted") from error
        fresh = lean(Remediation.from_wire(body))  # hundreds of incidents may be in hand
        if metadata.uid is not None and fresh.metadata.uid != metadata.uid:
            raise RecordGoneError(f"Remediation {metadata.name} was deleted and made again")
        self._show(fresh)
        self._stored, self._certain = fresh.status, True
        self._show_staged()

    def stage(self, *changes: Change) -> None:
        """Written with the next ``update``: for what nothing outside depends on until then. Seen here at once."""
        self._staged.extend(changes)
        self._show_staged()

    def _show_staged(self) -> None:
        new = self._current.status
        for change in self._staged:
            new = change(new)
        if new != self._current.status:
            self._show(self._current.model_copy(update={"status": new}))

    async def flush(self) -> None:
        """Write what is staged."""
        if self._staged:
            await self.update()

    async def update(self, *changes: Change) -> bool:
        """Apply the changes, the staged ones first, and write them, compare-and-swap. False when nothing changes."""
        async with self._lock:
            if not self._certain:
                await self._read()
            for _ in range(_TRIES):
                staged = len(self._staged)
                new = self._current.status
                for change in changes:
                    new = change(new)
                if new == self._stored:
                    del self._staged[:staged]
                    return False
                try:
                    await self._write(new)
                except ConflictError:
                    await self._read()
                    continue
                del self._staged[:staged]
                self._show_staged()
                return True
            raise ConflictError(f"replace Remediation {self.name}: written by others {_TRIES} times in a row")

    async def _write(self, status: RemediationStatus) -> None:
        body = self._current.model_copy(update={"status": status})
        try:
            stored = await self._kube.replace(
                REMEDIATION, body.to_wire(), self._current.metadata.namespace, subresource="status"
            )
        except ConflictError:
            raise
        except NotFoundError as error:
            raise RecordGoneError(f"Remediation {self.name} was deleted") from error
        except KubeError:
            self._certain = False
            raise
        self._show(lean(Remediation.from_wire(stored)))
        self._stored = self._current.status
