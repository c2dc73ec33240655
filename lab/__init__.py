"""A small data centre on one Linux machine."""
