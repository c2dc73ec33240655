"""The controller: watches, decides who leads, and drives every incident. ``python -m sparewheel.remediation.controller``."""
