"""etcd, API server, controller manager, scheduler and CoreDNS as supervised units beside the hosts."""

from lab.cluster.kubeconfig import write_kubeconfig
from lab.cluster.pki import Authority, make_service_account_keys
from lab.machines.inventory import (
    API_PORT,
    API_SERVICE_IP,
    CLUSTER_DOMAIN,
    MACHINE_IP,
    POD_NETWORK,
    SERVICE_NETWORK,
    Inventory,
)
from lab.paths import Paths
from lab.supervisor.unit import Unit

SERVER = f"https://{MACHINE_IP}:{API_PORT}"
ETCD_PORT = 2379
ETCD_PEER_PORT = 2380
SCHEDULER_PORT = 10259
CONTROLLER_MANAGER_PORT = 10257
DNS_PORT = 53
DNS_HEALTH_PORT = 10254


def make_credentials(paths: Paths) -> Authority:
    """Certificates and kubeconfigs of the control plane and the administrator; kept when there."""
    authority = Authority(paths.pki)
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{CLUSTER_DOMAIN}"]
    sans = [*names, "localhost", "127.0.0.1", MACHINE_IP, API_SERVICE_IP]
    authority.issue("apiserver", "kube-apiserver", sans=sans)
    authority.issue("apiserver-kubelet-client", "kube-apiserver-kubelet-client", ["system:masters"])
    authority.issue("admin", "admin", ["system:masters"])
    authority.issue("controller-manager", "system:kube-controller-manager")
    authority.issue("scheduler", "system:kube-scheduler")
    authority.issue("coredns", "system:coredns")
    authority.issue("kube-proxy", "system:kube-proxy")
    make_service_account_keys(paths.pki)
    write_kubeconfig(paths.kubeconfig, SERVER, paths.pki, "admin", "admin")
    for pair in ("controller-manager", "scheduler", "coredns"):
        write_kubeconfig(paths.state / f"{pair}.conf", SERVER, paths.pki, pair, pair)
    return authority


def etcd_unit(paths: Paths) -> Unit:
    """The store, on the loopback address alone."""
    client = f"http://127.0.0.1:{ETCD_PORT}"
    peer = f"http://127.0.0.1:{ETCD_PEER_PORT}"
    flags = {
        "data-dir": str(paths.state / "etcd"),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        "log-level": "warn",
    }
    return _unit(paths, "etcd", "etcd", flags)


def api_server_unit(paths: Paths) -> Unit:
    """The API server. It reaches pods by their addresses (aggregator routing), since no kube-proxy runs beside it."""
    pki = paths.pki
    flags = {
        "etcd-servers": f"http://127.0.0.1:{ETCD_PORT}",
        "bind-address": "0.0.0.0",
        "advertise-address": MACHINE_IP,
        "secure-port": str(API_PORT),
        "tls-cert-file": str(pki / "apiserver.crt"),
        "tls-private-key-file": str(pki / "apiserver.key"),
        "client-ca-file": str(pki / "ca.crt"),
        "service-account-key-file": str(pki / "sa.pub"),
        "service-account-signing-key-file": str(pki / "sa.key"),
        "service-account-issuer": "https://kubernetes.default.svc",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "service-cluster-ip-range": SERVICE_NETWORK,
        "kubelet-client-certificate": str(pki / "apiserver-kubelet-client.crt"),
        "kubelet-client-key": str(pki / "apiserver-kubelet-client.key"),
        "kubelet-preferred-address-types": "InternalIP",
        "enable-aggregator-routing": "true",
        "allow-privileged": "true",
        "profiling": "false",
    }
    return _unit(paths, "kube-apiserver", "kube-apiserver", flags)


def controller_manager_unit(paths: Paths) -> Unit:
    """The controller manager. Hosts have fixed pod networks, so it allocates none."""
    pki = paths.pki
    flags = {
        "kubeconfig": str(paths.state / "controller-manager.conf"),
        "service-account-private-key-file": str(pki / "sa.key"),
        "root-ca-file": str(pki / "ca.crt"),
        "use-service-account-credentials": "true",
        "allocate-node-cidrs": "false",
        "cluster-cidr": POD_NETWORK,
        "service-cluster-ip-range": SERVICE_NETWORK,
        "leader-elect": "false",
        "cluster-signing-cert-file": str(pki / "ca.crt"),
        "cluster-signing-key-file": str(pki / "ca.key"),
        "bind-address": "127.0.0.1",
        "secure-port": str(CONTROLLER_MANAGER_PORT),
        "profiling": "false",
    }
    return _unit(paths, "kube-controller-manager", "kube-controller-manager", flags)


def scheduler_unit(paths: Paths) -> Unit:
    """The scheduler."""
    flags = {
        "kubeconfig": str(paths.state / "scheduler.conf"),
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
        "secure-port": str(SCHEDULER_PORT),
        "profiling": "false",
    }
    return _unit(paths, "kube-scheduler", "kube-scheduler", flags)


def dns_unit(paths: Paths, inventory: Inventory) -> Unit:
    """CoreDNS on the bridge: the cluster's names and the hosts' names, nothing of the outside."""
    hosts = "\n".join(f"        {h.ip} {h.name}" for h in inventory.hosts)
    corefile = paths.state / "Corefile"
    corefile.write_text(
        f""".:{DNS_PORT} {{
    bind {MACHINE_IP}
    health 127.0.0.1:{DNS_HEALTH_PORT}
    hosts {{
{hosts}
        fallthrough
    }}
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
        endpoint {SERVER}
        kubeconfig {paths.state / "coredns.conf"}
        pods insecure
        ttl 2
    }}
    reload 2s
    errors
}}
"""
    )
    return _unit(paths, "coredns", "coredns", {"conf": str(corefile)}, dash="-")


def _unit(paths: Paths, name: str, binary: str, flags: dict[str, str], dash: str = "--") -> Unit:
    paths.logs.mkdir(parents=True, exist_ok=True)
    argv = [str(paths.bin / binary), *(f"{dash}{flag}={value}" for flag, value in flags.items())]
    return Unit(name=name, argv=argv, log=str(paths.logs / f"{name}.log"))
