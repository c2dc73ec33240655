"""Everything that has to be on a machine before the data centre can run on it.

Debian packages, the Python virtual environment, and binaries that are built from pinned Go modules where the machine
has none of an accepted version. Only the standard library is imported here: the virtual environment may not be there
yet. Rich is used for the progress display as soon as it can be imported.
"""
