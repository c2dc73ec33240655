"""One ComponentResource per file, wiring only."""
