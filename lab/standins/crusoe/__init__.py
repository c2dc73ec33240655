"""Plays Crusoe Cloud's REST API: VMs, node pools, AutoClusters, reservations, and what goes wrong with them."""
