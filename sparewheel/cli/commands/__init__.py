"""The commands, one file for each group; ``app.py`` gathers them."""
