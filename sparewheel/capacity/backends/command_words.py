"""What may be told of a command that runs on a machine: a stack may have put a token into it."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"
SHORTEST_SECRET: Final = 6
"""Shorter words of a command stay in what the machine says: they are no secrets, and hiding them would spoil it."""


def program(command: str) -> str:
    """The command's first word where that is plainly a program's name, else ``its command``."""
    first = next(iter(command.split()), "")
    return f"'{first}'" if re.fullmatch(r"[A-Za-z0-9_./-]{1,64}", first) else "its command"


def redact(text: str, command: str) -> str:
    """``text`` without the words that the stack wrote into ``command`` behind the program; ``{name}`` is no word."""
    _, _, rest = re.sub(r"\{\w+\}", " ", command).strip().partition(" ")
    written = rest if program(command) != "its command" else command
    words = {word for word in re.split(r"[\s=:;,|&()'\"]+", written) if len(word) >= SHORTEST_SECRET}
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, HIDDEN)
    return text
