"""Sparewheel: what runs in the cluster and on the command line. Imports no Pulumi."""

__version__ = "0.1.0"
