"""Tells people: the outbox, the routes, the formats."""
