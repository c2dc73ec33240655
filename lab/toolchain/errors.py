"""The one error of the set-up: a sentence or two that name the object, the cause and the next step."""

from __future__ import annotations


class ToolchainError(Exception):
    """The set-up can't go on; the message is meant for the person at the terminal."""
