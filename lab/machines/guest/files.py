"""Files and fixed paths inside a host."""

KUBERNETES_BIN = "/opt/kubernetes/bin"
CNI_BIN = "/opt/cni/bin"
IMAGE_STORE = "/opt/images"
MACHINE_CODE = "/opt/machine"
SUPERVISOR_RUN = "/run/machine"
GPU_COUNT_FILE = f"{SUPERVISOR_RUN}/gpus"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
POD_CGROUP = "kubepods"
PAUSE_IMAGE = "sparewheel.local/pause:3.10"
SEARCH_PATH = f"{KUBERNETES_BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

CONTAINERD_CONFIG = f"""version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["{CNI_BIN}"]
  conf_dir = "/etc/cni/net.d"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    SystemdCgroup = false
"""

SSHD_CONFIG = f"""Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
AuthorizedKeysFile .ssh/authorized_keys
UseDNS no
PrintMotd no
MaxStartups 100
MaxSessions 100
PidFile /run/sshd.pid
Subsystem sftp internal-sftp
SetEnv PATH={SEARCH_PATH} KUBECONFIG=/etc/kubernetes/kubelet.conf
"""
