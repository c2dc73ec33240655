"""One module per kind: bring the cluster to what an object says."""
