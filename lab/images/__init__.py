"""Container images without Docker: Debian root file systems, cut into shared layers, packed as docker-archives."""
