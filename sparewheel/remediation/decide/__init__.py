"""Pure decisions: no asyncio, no time, no random, no I/O."""
