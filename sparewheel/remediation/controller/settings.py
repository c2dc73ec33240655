"""The controller's settings: command line, then environment, then the names that the stack uses."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparewheel.api.names import NAMESPACE
from sparewheel.kube.pace import CALLS_IN_FLIGHT, CALLS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Settings:
    namespace: str = NAMESPACE
    identity: str = ""
    slurm_url: str = "http://slurm-restapi.slurm:6820"
    slurm_user: str = "slurm"
    token_file: Path | None = None
    token_namespace: str = "slurm"  # noqa: S105 - a namespace
    token_secret: str = "sparewheel-jwt-slurm"  # noqa: S105 - a Secret's name
    token_key: str = "SLURM_JWT"  # noqa: S105 - a key's name
    kubeconfig: Path | None = None
    health_port: int = 0
    """0: no /healthz."""
    api_calls_per_second: float = CALLS_PER_SECOND
    """Requests to the API server, and as many more at once after a quiet second."""
    api_calls_in_flight: int = CALLS_IN_FLIGHT
    """Requests to the API server that wait for their answer at the same time; its lease's and watches come on top."""


def read_settings(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    """Exits with a usage message on what it doesn't know."""
    known = Settings()
    parser = argparse.ArgumentParser(
        prog="python -m sparewheel.remediation.controller",
        description="Heals the GPU nodes of a cluster: fences, requeues, replaces, records and tells.",
    )
    parser.add_argument("--namespace", default=known.namespace, help="where our records are (default: %(default)s)")
    parser.add_argument("--slurm-url", default=known.slurm_url, help="address of slurmrestd (default: %(default)s)")
    parser.add_argument("--slurm-user", default=known.slurm_user, help="user of the token (default: %(default)s)")
    parser.add_argument("--token-file", type=Path, help="file with the Slurm token; else the Secret below is read")
    parser.add_argument("--token-namespace", default=known.token_namespace)
    parser.add_argument("--token-secret", default=known.token_secret, help="(default: %(default)s)")
    parser.add_argument("--token-key", default=known.token_key, help="(default: %(default)s)")
    parser.add_argument("--kubeconfig", type=Path, help="else $KUBECONFIG, else the pod's own service account")
    parser.add_argument("--identity", default="", help="name of this replica in the Lease (default: $POD_NAME)")
    parser.add_argument("--health-port", type=int, default=known.health_port, help="serve /healthz here (0: don't)")
    parser.add_argument(
        "--api-calls-per-second",
        type=_rate,
        default=known.api_calls_per_second,
        help="requests to the API server, and as many more at once after a quiet second (default: %(default)s)",
    )
    parser.add_argument(
        "--api-calls-in-flight",
        type=_places,
        default=known.api_calls_in_flight,
        help="requests to the API server that wait for their answer at the same time (default: %(default)s)",
    )
    found = parser.parse_args(arguments)
    return Settings(
        namespace=found.namespace,
        identity=found.identity or environment.get("POD_NAME", ""),
        slurm_url=found.slurm_url,
        slurm_user=found.slurm_user,
        token_file=found.token_file,
        token_namespace=found.token_namespace,
        token_secret=found.token_secret,
        token_key=found.token_key,
        kubeconfig=found.kubeconfig,
        health_port=found.health_port,
        api_calls_per_second=found.api_calls_per_second,
        api_calls_in_flight=found.api_calls_in_flight,
    )


def _rate(text: str) -> float:
    value = float(text)
    if not 1 <= value <= 10_000:
        raise argparse.ArgumentTypeError(f"{text} is no rate; between 1 and 10000 requests a second")
    return value


def _places(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text} is no number of requests in flight; between 1 and 1000")
    return value
