"""The real API server of the api tier, for the engine's tests."""

from __future__ import annotations

from tests.api.conftest import api_server

__all__ = ["api_server"]
