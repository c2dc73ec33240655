"""How a bare host joins a cluster that kubeadm made: a token of its own for minutes, the cluster's hash, a script."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
import shlex
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import resources
from typing import Any, Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sparewheel.api.gpu_pool import KubeadmJoin
from sparewheel.api.names import BOOTSTRAP_TOKEN_TYPE, BOOTSTRAPPERS
from sparewheel.capacity.port import CapacityError, JoinRequest
from sparewheel.clock import Clock
from sparewheel.kube.port import CONFIG_MAP, SECRET, Kube, NotFoundError

TOKEN_SECONDS: Final = 900.0
"""How long a token is good for; the cluster's token cleaner removes it then."""
SHARE: Final = 0.6
"""What kubeadm gets of a command's time on the host; the rest is for cleaning up before the connection is given up."""
_SIGNS: Final = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True)
class Door:
    """Where a cluster is entered, how it is known, and a token that opens it. The token is in no text of this."""

    endpoint: str
    """HOST:PORT of the API server."""
    ca_hash: str
    token: str = field(repr=False)


def new_token() -> str:
    """ID.SECRET, as kubeadm writes it."""
    return f"{_signs(6)}.{_signs(16)}"


def _signs(count: int) -> str:
    return "".join(secrets.choice(_SIGNS) for _ in range(count))


async def open_door(kube: Kube, clock: Clock, token_of: Callable[[], str] = new_token) -> Door:
    """A fresh token in the cluster. CapacityError where kubeadm did not make the cluster, else KubeError."""
    endpoint, ca_hash = await _cluster_info(kube)
    token = token_of()
    name, _, secret = token.partition(".")
    until = (clock.now() + timedelta(seconds=TOKEN_SECONDS)).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{name}", "namespace": "kube-system"},
        "type": BOOTSTRAP_TOKEN_TYPE,
        "stringData": {
            "token-id": name,
            "token-secret": secret,
            "expiration": until,
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": BOOTSTRAPPERS,
            "description": "made by Sparewheel for one host that joins",
        },
    }
    await kube.create(SECRET, body, "kube-system")
    return Door(endpoint, ca_hash, token)


async def _cluster_info(kube: Kube) -> tuple[str, str]:
    place = "ConfigMap kube-public/cluster-info"
    try:
        found = await kube.get(CONFIG_MAP, "cluster-info", "kube-public")
        cluster = yaml.safe_load(found["data"]["kubeconfig"])["clusters"][0]["cluster"]
        endpoint = str(cluster["server"]).removeprefix("https://").rstrip("/")
        return endpoint, ca_hash(base64.b64decode(cluster["certificate-authority-data"], validate=True))
    except NotFoundError as error:
        raise CapacityError(f"{place} is missing, so kubeadm did not make this cluster; use join_command") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, binascii.Error, yaml.YAMLError):
        raise CapacityError(f"{place} doesn't say where the cluster is; 'kubeadm init phase bootstrap-token'") from None


def ca_hash(pem: bytes) -> str:
    """The authority's public key, as kubeadm pins it."""
    key = x509.load_pem_x509_certificate(pem).public_key()
    digest = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    return f"sha256:{digest.hexdigest()}"


def join_document(request: JoinRequest, door: Door, settings: KubeadmJoin) -> str:
    """What kubeadm join reads; it holds the token, and goes to the host by standard input alone."""
    node = _registration(request, settings)
    bootstrap = {"apiServerEndpoint": door.endpoint, "caCertHashes": [door.ca_hash], "token": door.token}
    return json.dumps(
        {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "JoinConfiguration",
            "discovery": {"bootstrapToken": bootstrap},
            "nodeRegistration": node,
        }
    )


def _registration(request: JoinRequest, settings: KubeadmJoin) -> dict[str, Any]:
    labels = ",".join(f"{key}={value}" for key, value in sorted(request.labels.items()))
    arguments = {"provider-id": f"machines://{request.host}", **({"node-labels": labels} if labels else {})}
    return {
        "name": request.node_name,
        "criSocket": settings.cri_socket,
        "ignorePreflightErrors": list(settings.ignore_preflight_errors),
        "kubeletExtraArgs": [{"name": name, "value": value} for name, value in arguments.items()],
        "taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in request.taints],
    }


def join_command(request: JoinRequest, door: Door, settings: KubeadmJoin, timeout_seconds: float, user: str) -> str:
    """The script's words; no token is among them. A host that joined in just this way is not joined again."""
    same = json.dumps([_registration(request, settings), door.endpoint, door.ca_hash], sort_keys=True)
    mark = hashlib.sha256(same.encode()).hexdigest()
    return _script(user, "join", timeout_seconds, settings, mark)


def leave_command(settings: KubeadmJoin, timeout_seconds: float, user: str) -> str:
    return _script(user, "leave", timeout_seconds, settings)


def _script(user: str, mode: str, timeout_seconds: float, settings: KubeadmJoin, *more: str) -> str:
    text = resources.files("sparewheel.capacity.backends").joinpath("kubeadm_host.sh").read_text("utf-8")
    seconds = str(max(1, int(timeout_seconds * SHARE)))
    words = ["sh", "-c", text, "kubeadm_host", mode, seconds, settings.cri_socket, *more]
    return shlex.join(words if user == "root" else ["sudo", "-n", *words])
