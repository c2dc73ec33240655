"""Hosts: namespaces with their own disk, kernel log, GPUs, sshd, power and place on the network."""
