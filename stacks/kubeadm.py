"""A cluster that kubeadm makes on machines of yours: what its control plane's host and its settings may be."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from sparewheel.api.gpu_pool import MachinesBackend, SshEndpoint
from stacks.base import Area, HostName, SecretName
from stacks.machines import wrong_end
from stacks.pools import Pool

API_PORT: Final = 6443
_COMMON: Final = {
    "apiVersion": "leave it away, it is kubeadm's",
    "kind": "leave it away, the setting's own name says it",
}
OURS: Final[dict[str, dict[str, str]]] = {
    "InitConfiguration": {
        "bootstrapTokens": "a host that joins gets a token of its own",
        "certificateKey": "it is a secret, and there is one control plane host",
        "dryRun": "a preview makes nothing either",
        "skipPhases": "write skip_phases",
        "nodeRegistration.name": "write control_plane.name",
        "nodeRegistration.taints": "write control_plane.takes_pods",
        "nodeRegistration.ignorePreflightErrors": "write ignore_preflight_errors",
        "localAPIEndpoint.advertiseAddress": "write control_plane.advertise_address",
    },
    "ClusterConfiguration": {
        "kubernetesVersion": "write kubernetes_version",
        "controlPlaneEndpoint": "write endpoint",
        "networking.podSubnet": "write pod_cidr",
        "networking.serviceSubnet": "write service_cidr",
    },
    "KubeletConfiguration": {},
    "KubeProxyConfiguration": {},
}
"""Fields of kubeadm's documents that have a setting of their own, or none, and what to do instead."""
KINDS: Final = tuple(OURS)


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        msg = f"{text[:40]!r} is no IP address"
        raise ValueError(msg) from None


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        msg = f"{text[:40]!r} is no network such as 10.244.0.0/16, with no bit set behind the slash's"
        raise ValueError(msg) from None


Address = Annotated[str, AfterValidator(_address)]
Network = Annotated[str, AfterValidator(_network)]


class ControlPlane(Area):
    """The one host that runs etcd, the API server, the scheduler and the controller manager."""

    name: HostName = Field(description="its Node's name")
    ssh: SshEndpoint = Field(description="address, user and public host key; a user other than root needs sudo")
    key_secret: SecretName = Field(description="secret of the stack with the private SSH key")
    advertise_address: Address | None = Field(
        default=None, description="its IP address for the cluster; without it, the one of its default route"
    )
    takes_pods: bool = Field(
        default=False, description="it also runs the platform's own pods; true where no other host without GPUs is"
    )

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        wrong = wrong_end(f"control plane {self.name}", self.ssh)
        if wrong:
            raise ValueError(wrong)
        return self


class KubeadmCluster(Area):
    """A cluster made by ``kubeadm init``. A destroy resets the host."""

    kind: Literal["kubeadm"]
    control_plane: ControlPlane = Field(description="the host of the control plane: name, ssh, key_secret")
    kubernetes_version: str = Field(
        pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$", description="the release that kubeadm and the kubelets are of, as 1.36.3"
    )
    endpoint: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][-A-Za-z0-9.]*:[0-9]{1,5}$",
        description="name or address and port at which hosts and users reach the API server",
    )
    pod_cidr: Network = "10.244.0.0/16"
    service_cidr: Network = "10.96.0.0/16"
    network: str | None = Field(
        default=None,
        min_length=1,
        description="folder with the YAML files of the pods' network (CNI); without it, the hosts bring their own",
    )
    skip_phases: list[Annotated[str, Field(pattern=r"^[a-z][-a-z0-9/]*$")]] = Field(
        default_factory=list[str], description="phases of kubeadm init to leave out, such as addon/kube-proxy"
    )
    ignore_preflight_errors: list[Annotated[str, Field(pattern=r"^[A-Za-z][-A-Za-z0-9.]*$")]] = Field(
        default_factory=list[str], description="checks of kubeadm, by name, whose failure doesn't matter here"
    )
    settings: dict[str, dict[str, Any]] = Field(
        default_factory=dict[str, dict[str, Any]], description=f"more for kubeadm's documents: {', '.join(KINDS)}"
    )
    timeout_seconds: int = Field(default=600, ge=60, le=3600, description="how long kubeadm init or reset may take")
    protect: bool = Field(default=True, description="a destroy refuses to reset the control plane")
    rerun: str = Field(
        default="", pattern=r"^[-A-Za-z0-9 :.]*$", description="any text; changing it reads the kubeconfig again"
    )

    @property
    def api_endpoint(self) -> str:
        """HOST:PORT of the API server."""
        return self.endpoint or f"{self.control_plane.ssh.address}:{API_PORT}"

    @field_validator("ignore_preflight_errors")
    @classmethod
    def _by_name(cls, names: list[str]) -> list[str]:
        if any(name.lower() == "all" for name in names):
            msg = "all would hide what really is in the way; name each check, as kubeadm's error does"
            raise ValueError(msg)
        return names

    @field_validator("settings")
    @classmethod
    def _known(cls, settings: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for kind, body in settings.items():
            if kind not in KINDS:
                msg = f"{kind[:40]} is none of kubeadm's documents here; they are {', '.join(KINDS)}"
                raise ValueError(msg)
            for path, instead in {**_COMMON, **OURS[kind]}.items():
                if _has(body, path.split(".")):
                    msg = f"{kind}.{path} is not set here: {instead}"
                    raise ValueError(msg)
        return settings

    @model_validator(mode="after")
    def _networks_apart(self) -> Self:
        pods, services = ipaddress.ip_network(self.pod_cidr), ipaddress.ip_network(self.service_cidr)
        if pods.version == services.version and pods.overlaps(services):
            msg = f"pod_cidr {pods} and service_cidr {services} overlap; give each addresses of its own"
            raise ValueError(msg)
        own = self.control_plane.advertise_address or self.control_plane.ssh.address
        for name, network in (("pod_cidr", pods), ("service_cidr", services)):
            if _inside(own, network):
                msg = f"{name} {network} holds the control plane's own address {own}; give it other addresses"
                raise ValueError(msg)
        return self


def in_a_pool(host: ControlPlane, pools: Sequence[Pool]) -> str:
    """Why the control plane's host would be taken down by a pool that has it as well; empty where none has."""
    for pool in pools:
        for machine in pool.backend.machines if isinstance(pool.backend, MachinesBackend) else ():
            if machine.name == host.name or (machine.ssh.address, machine.ssh.port) == (
                host.ssh.address,
                host.ssh.port,
            ):
                return (
                    f"pools: machine {machine.name} of {pool.name} is the control plane's host {host.name}; "
                    "a host that leaves its pool is reset, and the cluster with it; take it out of the pool"
                )
    return ""


def _inside(address: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    try:
        return ipaddress.ip_address(address) in network
    except ValueError:  # a name
        return False


def _has(body: Any, path: list[str]) -> bool:
    for step in path:
        if not isinstance(body, dict) or step not in body:
            return False
        body = body[step]  # pyright: ignore[reportUnknownVariableType]
    return True
