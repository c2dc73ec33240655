"""A real etcd and a real kube-apiserver on loopback, in a folder of their own; no kubelets, no controllers."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sparewheel.kube.access import Access, from_text

START_SECONDS = 90.0


class ApiServerError(Exception):
    """The API server for the tests did not come up; the message holds the end of its log."""


def binary(name: str) -> str | None:
    """Path of a binary in the cache, else on PATH, else None."""
    cache = Path(os.environ.get("SPAREWHEEL_CACHE", "~/.cache/sparewheel")).expanduser()
    candidate = cache / "bin" / name
    return str(candidate) if candidate.is_file() else shutil.which(name)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Pki:
    """One CA and the certificates under it, as PEM files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-ca")])
        builder = self._builder(self.name, self.key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate = builder.sign(self.key, hashes.SHA256())
        self._write("ca", self.key, self.certificate)

    def issue(self, file: str, common_name: str, organization: str = "", *, server: bool = False) -> None:
        """Write FILE.crt and FILE.key."""
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = self._builder(x509.Name(parts), key.public_key()).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if server:
            names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        self._write(file, key, builder.sign(self.key, hashes.SHA256()))

    def _builder(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + dt.timedelta(days=2))
        )

    def _write(self, file: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        (self.folder / f"{file}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        (self.folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def write_kubeconfig(folder: Path, server: str, user_name: str = "admin") -> Path:
    """For the user whose certificate ``issue`` wrote."""
    path = folder / ("kubeconfig" if user_name == "admin" else f"kubeconfig-{user_name}")
    # Relative: read beside the kubeconfig.
    user = {"client-certificate": f"{user_name}.crt", "client-key": f"{user_name}.key"}
    cluster = {"server": server, "certificate-authority": "ca.crt"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
    }
    path.write_text(json.dumps(content))  # JSON is YAML
    return path


def with_token(kubeconfig: Path, token: str) -> Access:
    """The same server, asked with a bearer token in place of the admin's certificate."""
    config = json.loads(kubeconfig.read_text())
    config["users"] = [{"name": "admin", "user": {"token": token}}]
    return from_text(json.dumps(config), folder=kubeconfig.parent)


def _wait_ready(server: str, folder: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        dead = next((process for process in processes if process.poll() is not None), None)
        if dead is not None:
            break
        try:
            with urllib.request.urlopen(f"{server}/readyz", context=context, timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.2)
    log = (folder / "kube-apiserver.log").read_text()[-2000:]
    raise ApiServerError(f"kube-apiserver at {server} not ready within {START_SECONDS:.0f} s; end of its log:\n{log}")


@contextmanager
def running_api_server(folder: Path, arguments: Sequence[str] = (), users: Sequence[str] = ()) -> Iterator[Path]:
    """Start both, yield the admin kubeconfig, stop exactly these two.

    ``arguments`` go to the API server; each of ``users`` gets an administrator's kubeconfig of its own beside it.
    """
    etcd, apiserver = binary("etcd"), binary("kube-apiserver")
    if etcd is None or apiserver is None:
        raise ApiServerError("etcd or kube-apiserver is missing; build them with `make setup`")
    pki = Pki(folder)
    pki.issue("server", "kube-apiserver", server=True)
    for user in ("admin", *users):
        pki.issue(user, user, "system:masters")
    etcd_url, peer_url = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    port = free_port()
    server = f"https://127.0.0.1:{port}"
    commands = {
        "etcd": [
            etcd,
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={etcd_url}",
            f"--advertise-client-urls={etcd_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            "--unsafe-no-fsync",
        ],
        "kube-apiserver": [
            apiserver,
            f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={folder / 'server.crt'}",
            f"--tls-private-key-file={folder / 'server.key'}",
            f"--client-ca-file={folder / 'ca.crt'}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={folder / 'ca.key'}",
            f"--service-account-key-file={folder / 'ca.key'}",
            "--service-cluster-ip-range=10.254.0.0/24",
            # No controller-manager makes the default service account here, and no kubelet takes pods.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            *arguments,
        ],
    }
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for name, command in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder))
        _wait_ready(server, folder, processes)
        for user in users:
            write_kubeconfig(folder, server, user)
        yield write_kubeconfig(folder, server)
    finally:
        for process in reversed(processes):  # the API server first: it waits for etcd when that is gone
            process.terminate()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
