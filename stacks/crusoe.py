"""What is asked of a Crusoe backend beyond its fields' forms."""

from __future__ import annotations

from urllib.parse import urlsplit

from sparewheel.api.gpu_pool import AutoClustersMode, CrusoeBackend

LOOPBACK = ("127.0.0.1", "localhost")


def wrong_with(backend: CrusoeBackend) -> str:
    """Why it can't be used, with the next step; empty when it can."""
    if backend.auto_clusters is AutoClustersMode.ON:
        return (
            "auto_clusters is on: Crusoe replaces these nodes, and a node has one healer, never two; "
            "set its actions to OFF or detect_only in Crusoe and say so here, or take the pool out of the stack"
        )
    url = urlsplit(backend.url)
    if url.scheme != "https" and url.hostname not in LOOPBACK:
        return f"url {backend.url} is not encrypted; it begins with https://"
    return ""
