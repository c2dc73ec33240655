"""The built programs that the data centre needs, by where they run."""

CONTROL_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns", "kubectl")
HOST_PROGRAMS = (
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "kubelet",
    "kube-proxy",
    "kubectl",
    "gpu-device-plugin",
    "cni/bridge",
    "cni/loopback",
    "cni/host-local",
    "cni/portmap",
)
BARE_PROGRAMS = (*HOST_PROGRAMS, "kubeadm")
