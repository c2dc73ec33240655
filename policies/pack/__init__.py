"""The rules as a Pulumi policy pack: a shell over the same functions that `python -m policies` asks."""
