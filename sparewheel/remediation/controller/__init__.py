"""The controller: watches, decides who leads, drives incidents. ``python -m sparewheel.remediation.controller``."""
