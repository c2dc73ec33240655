"""The controller: decisions (pure), stages, loop."""
