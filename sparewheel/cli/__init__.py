"""The command line: what platform engineers, researchers and whoever is on call ask and do."""

from __future__ import annotations

from sparewheel.cli.app import main

__all__ = ["main"]
