"""The veto: a pod with the veto label keeps its node from being drained and replaced; so does not knowing."""

from __future__ import annotations

from sparewheel.remediation.decide.observations import PodView, Unknown


def veto_reason(pods: tuple[PodView, ...] | Unknown) -> str:
    """Empty when nothing vetoes. A finished pod no longer does; a terminating one does until it is gone."""
    if isinstance(pods, Unknown):
        return f"the look-up of pods that may veto, which failed ({pods.error})"
    vetoing = sorted(f"{pod.namespace}/{pod.name}" for pod in pods if pod.veto and not pod.finished)
    if not vetoing:
        return ""
    verb = "pods" if len(vetoing) > 1 else "pod"
    return f"the veto of {verb} {', '.join(vetoing)}"
