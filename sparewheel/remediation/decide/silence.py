"""What the silence of a node's agent and kubelet says: is the node lost? Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Silence:
    """Seconds of silence; None where nothing was ever heard, so that nothing is said about it.

    An agent is awaited from the first sight of its Node on.
    """

    agent_seconds: float | None
    kubelet_seconds: float | None
    kubelet_unknown: bool
    """Kubernetes' own node controller says Unknown."""

    def lost(self, limit_seconds: float) -> bool:
        """Both silent for the limit. A kubelet that answers says that the node lives, whatever became of its agent."""
        if self.agent_seconds is None or self.agent_seconds < limit_seconds:
            return False
        return self.kubelet_unknown or (self.kubelet_seconds is not None and self.kubelet_seconds >= limit_seconds)

    @property
    def words(self) -> str:
        return f"agent and kubelet silent for {self.agent_seconds or 0.0:.0f} s"
