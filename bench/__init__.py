"""Figures, each with its command: ``make bench`` prints them and writes ``build/bench/results.json``."""
