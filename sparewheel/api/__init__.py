"""The objects Sparewheel keeps in the cluster, and every name it uses there. Pure: no I/O."""
