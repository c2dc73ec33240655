"""What the controller asked of the API server, by the server's own audit log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

USER: Final = "controller"
POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata", "users": [USER]}, {"level": "None"}],
}


@dataclass(frozen=True, slots=True)
class Audit:
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "audit.log"

    def arguments(self) -> list[str]:
        """For the API server."""
        policy = self.folder / "audit-policy.json"
        policy.write_text(json.dumps(POLICY))
        return [f"--audit-policy-file={policy}", f"--audit-log-path={self.log}", "--audit-log-mode=blocking"]

    def calls(self, since: float, until: float) -> list[float]:
        """Wall times of the controller's requests, watches left out: they are one each in a minute."""
        found: list[float] = []
        for line in self.log.read_text("utf-8").splitlines():
            event = json.loads(line)
            at = datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
            if event["verb"] != "watch" and since <= at <= until:
                found.append(at)
        return sorted(found)


def most_in_a_second(times: list[float]) -> int:
    """The busiest second."""
    most = first = 0
    for last, at in enumerate(times):
        while at - times[first] >= 1:
            first += 1
        most = max(most, last - first + 1)
    return most
