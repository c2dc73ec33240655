"""Checkpoints in shards, whole by their manifest.

    RUN/checkpoints/job-7-attempt-0/step-000000118-all/
        shard-00000-of-00002.bin    a slice of the state's bytes
        shard-00000-of-00002.json   its size and checksum, written after it
        manifest.json               written last: now it is a checkpoint

Data-parallel ranks hold the same state, so any rank can write any shard, and whoever finds all shards there writes the
manifest. Two that do so at once write the same bytes. A folder per attempt: no attempt overwrites another's.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .attempt import Attempt
from .fence import Fence
from .files import Pace, digest, make_folder, read_json, write_json, write_whole

MANIFEST = "manifest.json"
SHARED = "all"
"""The tag of a checkpoint that all ranks write together; one that a single rank wrote has its host's name."""

_FOLDER = re.compile(r"^step-(\d{9})-(.+)$")


class ReplicasDifferError(RuntimeError):
    """Ranks that must hold the same state don't: silent corruption, or state that isn't a function of (seed, step)."""


@dataclass(frozen=True)
class Snapshot:
    """The state after `step`: its bytes, and a few facts to read without unpacking them (equal on every rank)."""

    step: int
    payload: bytes
    facts: dict[str, Any]


@dataclass(frozen=True)
class Found:
    """A whole checkpoint on disk, its checksums verified."""

    attempt: Attempt
    snapshot: Snapshot


class CheckpointError(RuntimeError):
    """A folder that can't be loaded; says why."""


class Checkpoints:
    """The checkpoints of one run, written as `attempt`."""

    def __init__(self, run_dir: Path, attempt: Attempt, *, pace: Pace | None = None) -> None:
        self.root = run_dir / "checkpoints"
        self.attempt = attempt
        self.fence = Fence(run_dir, attempt)
        self._pace = pace
        self.warnings: list[str] = []

    def folder(self, step: int, tag: str) -> Path:
        return self.root / self.attempt.name / f"step-{step:09d}-{tag}"

    def write_shard(self, snapshot: Snapshot, index: int, count: int, tag: str = SHARED) -> None:
        """Write slice `index` of `count`. FencedError if a newer attempt owns the run."""
        self.fence.check()
        if tag == SHARED:
            self._drop_unfinished(snapshot.step)
        folder = self.folder(snapshot.step, tag)
        make_folder(folder)
        size = len(snapshot.payload)
        part = snapshot.payload[size * index // count : size * (index + 1) // count]
        write_whole(
            folder / _shard(index, count, "bin"), part, pace=self._pace_fenced, chunk_bytes=max(1, len(part) // 64)
        )
        write_json(
            folder / _shard(index, count, "json"),
            {
                "bytes": len(part),
                "sha256": digest(part),
                "whole_sha256": digest(snapshot.payload),
                "facts": snapshot.facts,
            },
        )

    def missing(self, step: int, count: int, tag: str = SHARED) -> list[int]:
        """The shards that aren't there yet."""
        folder = self.folder(step, tag)
        return [index for index in range(count) if not (folder / _shard(index, count, "json")).exists()]

    def publish(self, step: int, count: int, tag: str = SHARED) -> bool:
        """Make the checkpoint whole if all its shards are there; True when it is whole now.

        FencedError for an older attempt; ReplicasDifferError when the shards are slices of different states.
        """
        folder = self.folder(step, tag)
        if (folder / MANIFEST).exists():
            return True
        sides = [read_json(folder / _shard(index, count, "json")) for index in range(count)]
        shards = [side for side in sides if side is not None]
        if len(shards) < count:
            return False
        wholes = [shard["whole_sha256"] for shard in shards]
        if len(set(wholes)) > 1:
            odd = [index for index, whole in enumerate(wholes) if wholes.count(whole) <= count // 2]
            raise ReplicasDifferError(
                f"step {step} isn't saved: the ranks hold different states (odd ones: {odd}). Keep everything that "
                "differs between ranks out of the state; if nothing does, suspect the memory of those ranks' devices."
            )
        self.fence.check()
        write_json(
            folder / MANIFEST,
            {
                "step": step,
                "whole_sha256": wholes[0],
                "facts": shards[0]["facts"],
                "shards": [
                    {"name": _shard(i, count, "bin"), "bytes": s["bytes"], "sha256": s["sha256"]}
                    for i, s in enumerate(shards)
                ],
            },
        )
        return True

    def is_whole(self, step: int, tag: str = SHARED) -> bool:
        return (self.folder(step, tag) / MANIFEST).exists()

    def signs_of_writing(self, step: int, tag: str) -> tuple[tuple[str, int], ...]:
        """Names and sizes in a checkpoint's folder: while they change, somebody is writing."""
        signs: list[tuple[str, int]] = []
        for path in _entries(self.folder(step, tag)):
            try:
                signs.append((path.name, path.stat().st_size))
            except FileNotFoundError:  # renamed between the listing and the look
                continue
        return tuple(sorted(signs))

    def tags(self, step: int) -> list[str]:
        """The tags under which this attempt has begun a checkpoint of `step`."""
        names = (_FOLDER.match(path.name) for path in _entries(self.root / self.attempt.name))
        return sorted(match[2] for match in names if match and int(match[1]) == step)

    def newest(self) -> Found | None:
        """The newest whole checkpoint that counts, over this attempt and all before it; None for a fresh start.

        One that is damaged is passed over, with a line in `warnings`.
        """
        candidates = [
            (step, attempt, folder)
            for attempt in self._attempts()
            for step, folder in _folders(self.root / attempt.name)
            if (folder / MANIFEST).exists() and step <= self._limit(attempt, step)
        ]
        for _, attempt, folder in sorted(candidates, key=lambda item: (item[0], item[1]), reverse=True):
            try:
                return Found(attempt, load(folder))
            except CheckpointError as error:
                self.warnings.append(f"{error}; looking for an older one")
        return None

    def prune(self, keep: int) -> None:
        """Keep the `keep` newest whole checkpoints of this attempt; once it has that many, older attempts' go too."""
        own = list(_folders(self.root / self.attempt.name))
        whole = sorted((step for step, folder in own if (folder / MANIFEST).exists()), reverse=True)
        if len(whole) < keep:
            return
        self.fence.check()
        oldest_kept = whole[keep - 1]
        for step, folder in own:
            if step < oldest_kept:
                _remove(folder)
        for attempt in self._attempts():
            if attempt < self.attempt:
                for _, folder in _folders(self.root / attempt.name):
                    _remove(folder)

    def _drop_unfinished(self, before: int) -> None:
        """Remove what saves of all ranks of earlier steps left without becoming whole: it takes the room of the next.

        Nobody writes there any more: no rank is at `before` while another is still at the save of an earlier step.
        """
        for step, folder in _folders(self.root / self.attempt.name):
            if step < before and folder.name.endswith(f"-{SHARED}") and not (folder / MANIFEST).exists():
                shutil.rmtree(folder, ignore_errors=True)

    def _limit(self, attempt: Attempt, step: int) -> int:
        limit = self.fence.last_valid_step(attempt)
        return step if limit is None else limit

    def _attempts(self) -> list[Attempt]:
        found = (Attempt.parse(path.name) for path in _entries(self.root))
        return sorted(attempt for attempt in found if attempt is not None and attempt <= self.attempt)

    def _pace_fenced(self, written: int, total: int) -> None:
        if self._pace is not None:
            self._pace(written, total)
        self.fence.check()  # a slow save ends early once it can't count any more


def load(folder: Path) -> Snapshot:
    """Read a checkpoint and verify every byte of it; CheckpointError says what is wrong."""
    try:
        manifest = read_json(folder / MANIFEST)
    except OSError as error:
        raise CheckpointError(f"{folder} can't be read: {error}") from error
    if manifest is None:
        raise CheckpointError(f"{folder} has no readable {MANIFEST}")
    parts: list[bytes] = []
    try:
        for shard in manifest["shards"]:
            part = (folder / shard["name"]).read_bytes()
            if len(part) != shard["bytes"] or digest(part) != shard["sha256"]:
                raise CheckpointError(f"{folder / shard['name']} is damaged: its size or checksum isn't the manifest's")
            parts.append(part)
        payload = b"".join(parts)
        if digest(payload) != manifest["whole_sha256"]:
            raise CheckpointError(f"{folder} is damaged: the shards don't make the state that was saved")
        step, facts = manifest["step"], manifest["facts"]
        named = _FOLDER.match(folder.name)
        if named is None or step != int(named[1]) or not isinstance(facts, dict):
            raise CheckpointError(f"{folder / MANIFEST} is damaged: its step or facts aren't this checkpoint's")
        return Snapshot(step, payload, facts)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / MANIFEST} isn't a manifest of ours ({error!r})") from error
    except OSError as error:
        raise CheckpointError(f"{folder} can't be read: {error}") from error


def _shard(index: int, count: int, suffix: str) -> str:
    return f"shard-{index:05d}-of-{count:05d}.{suffix}"


def _folders(attempt_folder: Path) -> Iterator[tuple[int, Path]]:
    for path in _entries(attempt_folder):
        if match := _FOLDER.match(path.name):
            yield int(match[1]), path


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove(folder: Path) -> None:
    """Remove a checkpoint, its manifest first: what is left of an interrupted removal isn't a checkpoint."""
    (folder / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
