"""Kubeconfig files with everything inside (JSON is YAML)."""

import base64
import json
from pathlib import Path

from lab.cluster.pki import write_secret


def kubeconfig(server: str, pki: Path, pair: str, user: str) -> str:
    """A kubeconfig for the certificate pair `<pair>.crt/.key` in `pki`; `server` is a URL."""

    def data(name: str) -> str:
        return base64.b64encode((pki / name).read_bytes()).decode()

    cluster = {"server": server, "certificate-authority-data": data("ca.crt")}
    credentials = {"client-certificate-data": data(f"{pair}.crt"), "client-key-data": data(f"{pair}.key")}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "data-centre", "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "data-centre", "context": {"cluster": "data-centre", "user": user}}],
            "current-context": "data-centre",
        },
        indent=1,
    )


def write_kubeconfig(path: Path, server: str, pki: Path, pair: str, user: str) -> None:
    """Write it for its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_secret(path, kubeconfig(server, pki, pair, user).encode())
