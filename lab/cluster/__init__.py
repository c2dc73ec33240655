"""The control plane beside the hosts: network, certificates, daemons, first objects; up and down of it all."""
