"""``python -m sparewheel.cli``."""

from __future__ import annotations

from sparewheel.cli.app import main

main()
