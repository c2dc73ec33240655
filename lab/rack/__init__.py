"""A rack of bare machines beside the data centre: nothing on them but sshd, containerd, and kubeadm's packages."""
