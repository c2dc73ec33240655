"""The programs that the toolchain provides, as data.

Times are for two cores and an empty Go build cache, in the order in which the profiles build: later programs of a
module find most of it compiled.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Version = tuple[int, int, int]

KUBERNETES_VERSION = "1.36.3"
PULUMI_VERSION = "3.274.1"
KUBERNETES_PROVIDER_VERSION = "4.25.0"
_MODULES = "lab/toolchain/go"


@dataclass(frozen=True)
class Accepted:
    """Which version of the machine's own program will do: `at_least` <= version < `below`.

    arguments: what makes the program print its version; its first dotted number is taken.
    """

    arguments: tuple[str, ...]
    at_least: Version
    below: Version


@dataclass(frozen=True)
class Tool:
    """One program.

    name: its file name under `bin/`, with `cni/` before it for a CNI plugin.
    module: the folder of the checkout whose go.mod and go.sum pin it, with our own sources where there are any.
    package: the Go package to build, `.` for a main of ours in that folder.
    version: what is built, as shown to a reader.
    expected_seconds: build time.
    values: link-time values (`-X name=value`).
    accepted: which of the machine's own programs may be used instead; None: always build.
    beside: use the machine's own program when it lies in the same folder as this other, accepted one.
    plugin: use the plugin of this name that Pulumi has fetched itself, in this `version`.
    copied: files of the module `copied_from` that the main of ours embeds, copied beside it for the build.
    """

    name: str
    module: str
    package: str
    version: str
    expected_seconds: float
    values: tuple[tuple[str, str], ...] = ()
    accepted: Accepted | None = None
    beside: str | None = None
    plugin: str | None = None
    copied_from: str | None = None
    copied: tuple[str, ...] = field(default=())


def _kubernetes(
    name: str, expected_seconds: float, arguments: tuple[str, ...] = ("--version",), module: str = "kubernetes"
) -> Tool:
    base = "k8s.io/component-base/version"
    major, minor, _ = KUBERNETES_VERSION.split(".")
    return Tool(
        name=name,
        module=f"{_MODULES}/{module}",
        package=f"k8s.io/kubernetes/cmd/{name}",
        version=KUBERNETES_VERSION,
        expected_seconds=expected_seconds,
        values=(
            (f"{base}.gitVersion", f"v{KUBERNETES_VERSION}"),
            (f"{base}.gitMajor", major),
            (f"{base}.gitMinor", minor),
        ),
        accepted=Accepted(arguments, (1, 36, 0), (1, 37, 0)),
    )


def _containerd(name: str, expected_seconds: float, accepted: Accepted | None, beside: str | None = None) -> Tool:
    return Tool(
        name=name,
        module=f"{_MODULES}/containerd",
        package=f"github.com/containerd/containerd/v2/cmd/{name}",
        version="2.3.7",
        expected_seconds=expected_seconds,
        accepted=accepted,
        beside=beside,
    )


def _cni(kind: str, name: str, expected_seconds: float) -> Tool:
    return Tool(
        name=f"cni/{name}",
        module=f"{_MODULES}/cni",
        package=f"github.com/containernetworking/plugins/plugins/{kind}/{name}",
        version="1.9.1",
        expected_seconds=expected_seconds,
    )


_ETCD = Tool(
    name="etcd",
    module=f"{_MODULES}/etcd",
    package="go.etcd.io/etcd/server/v3",
    version="3.7.3",
    expected_seconds=60,
    accepted=Accepted(("--version",), (3, 6, 0), (3, 8, 0)),
)

_PULUMI = (
    Tool(
        name="pulumi",
        module=f"{_MODULES}/pulumi",
        package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        version=PULUMI_VERSION,
        expected_seconds=240,
        values=(("github.com/pulumi/pulumi/sdk/v3/go/common/version.Version", f"v{PULUMI_VERSION}"),),
        accepted=Accepted(("version",), (3, 200, 0), (4, 0, 0)),
    ),
    Tool(
        name="pulumi-language-python",
        module=f"{_MODULES}/pulumi-python",
        package="github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python",
        version="3.68.0",
        expected_seconds=15,
        beside="pulumi",
    ),
    Tool(
        name="pulumi-resource-kubernetes",
        module=f"{_MODULES}/pulumi-kubernetes",
        package=".",
        version=KUBERNETES_PROVIDER_VERSION,
        expected_seconds=480,
        values=(("main.version", KUBERNETES_PROVIDER_VERSION),),
        beside="pulumi",
        plugin="kubernetes",
        copied_from="github.com/pulumi/pulumi-kubernetes/provider/v4",
        copied=(
            "cmd/pulumi-resource-kubernetes/schema.json",
            "cmd/pulumi-resource-kubernetes/terraform-mapping.json",
        ),
    ),
)

_API = (_ETCD, _kubernetes("kube-apiserver", 280), _kubernetes("kubectl", 30, ("version", "--client")))

_CLUSTER = (
    _kubernetes("kube-controller-manager", 90),
    _kubernetes("kube-scheduler", 10),
    _kubernetes("kubelet", 20),
    _kubernetes("kube-proxy", 15),
    _containerd("containerd", 60, Accepted(("--version",), (2, 1, 0), (3, 0, 0))),
    _containerd("containerd-shim-runc-v2", 5, None, beside="containerd"),
    _containerd("ctr", 10, Accepted(("--version",), (2, 1, 0), (3, 0, 0))),
    _cni("main", "bridge", 10),
    _cni("main", "loopback", 5),
    _cni("ipam", "host-local", 5),
    _cni("meta", "portmap", 5),
    Tool(
        name="coredns",
        module=f"{_MODULES}/coredns",
        package="github.com/coredns/coredns",
        version="1.14.7",
        expected_seconds=120,
        accepted=Accepted(("-version",), (1, 11, 0), (2, 0, 0)),
    ),
)

_KUBEADM = _kubernetes("kubeadm", 30, ("version", "-o", "short"), module="kubeadm")

_KWOK = Tool(
    name="kwok",
    module=f"{_MODULES}/kwok",
    package="sigs.k8s.io/kwok/cmd/kwok",
    version="0.8.0",
    expected_seconds=60,
    accepted=Accepted(("--version",), (0, 6, 0), (1, 0, 0)),
)

_ACTIONLINT = Tool(
    name="actionlint",
    module=f"{_MODULES}/actionlint",
    package="github.com/rhysd/actionlint/cmd/actionlint",
    version="1.7.12",
    expected_seconds=20,
    accepted=Accepted(("-version",), (1, 7, 0), (2, 0, 0)),
)

PROFILES: dict[str, tuple[Tool, ...]] = {
    "python": (),
    "pages": (),
    "lint": (_ACTIONLINT,),
    "stack": _PULUMI,
    "api": _API,
    "pulumi": (*_API, *_PULUMI),
    "lab": (*_API, *_PULUMI, *_CLUSTER),
    "rack": (_KUBEADM,),
    "bench": (*_API, *_PULUMI, _KWOK),
}
"""What each kind of work needs, from nothing but Python to the whole data centre."""
