"""Where slurmrestd's token comes from. It is renewed behind our back, so it is read again and never kept for long."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from sparewheel.clock import Clock
from sparewheel.kube.port import SECRET, Kube, KubeError
from sparewheel.slurm.port import SlurmUnavailableError

SECRET_AGE_SECONDS: Final = 30.0


class TokenSource(Protocol):
    async def token(self, *, fresh: bool = False) -> str:
        """The token; ``fresh`` after one was refused. SlurmUnavailableError when it can't be read."""
        ...


@dataclass(slots=True)
class FileToken:
    """A token in a file, read again whenever the file changed (a mounted Secret)."""

    path: Path
    _token: str = ""
    _read_of: tuple[int, int] = (0, 0)

    async def token(self, *, fresh: bool = False) -> str:
        try:
            stat = self.path.stat()
            stamp = (stat.st_mtime_ns, stat.st_ino)
            if fresh or stamp != self._read_of:
                self._token, self._read_of = self.path.read_text().strip(), stamp
        except OSError as error:
            raise SlurmUnavailableError(f"Slurm token {self.path} can't be read: {error.strerror}") from error
        if not self._token:
            raise SlurmUnavailableError(f"Slurm token {self.path} is empty; is the Token object issued?")
        return self._token


@dataclass(slots=True)
class SecretToken:
    """A token in a Secret, such as Slinky's Token keeps renewed."""

    kube: Kube
    namespace: str
    name: str
    key: str
    clock: Clock
    _token: str = ""
    _read_at: float = float("-inf")

    async def token(self, *, fresh: bool = False) -> str:
        now = self.clock.monotonic_seconds()
        if fresh or not self._token or now - self._read_at > SECRET_AGE_SECONDS:
            place = f"key {self.key} of Secret {self.namespace}/{self.name}"
            try:
                secret = await self.kube.get(SECRET, self.name, self.namespace)
                self._token = base64.b64decode(secret["data"][self.key], validate=True).decode().strip()
            except KubeError as error:
                raise SlurmUnavailableError(f"Slurm token ({place}) can't be read: {error}") from error
            except (KeyError, TypeError, binascii.Error, UnicodeDecodeError) as error:
                raise SlurmUnavailableError(f"Slurm token: {place} is missing; is the Token object issued?") from error
            self._read_at = now
        return self._token
