"""The control plane beside the hosts: network, certificates, daemons, first objects; and bringing all of it up and down."""
