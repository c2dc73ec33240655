"""A small process supervisor: the owner of the daemons beside the hosts, and process 1 inside each host.

Standard library only, since it also runs inside hosts on the distribution's own Python.
"""
