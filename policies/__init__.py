"""The policy pack: one rule per function."""
