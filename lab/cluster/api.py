"""Reading from the API server as the administrator, without a kubectl process per look."""

import http.client
import ssl

from lab.machines.inventory import API_PORT, MACHINE_IP
from lab.paths import Paths

READ_SECONDS = 5.0


class ApiError(RuntimeError):
    """The API server did not answer, or refused."""


def get(paths: Paths, path: str) -> bytes:
    """The body of a successful GET; ApiError otherwise."""
    pki = paths.pki
    try:
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        connection = http.client.HTTPSConnection(MACHINE_IP, API_PORT, timeout=READ_SECONDS, context=context)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        raise ApiError(f"the API server did not answer GET {path}: {error}") from error
    if answer.status != http.client.OK:
        raise ApiError(f"the API server answered GET {path} with {answer.status}: {body[:200]!r}")
    return body


def is_ready(paths: Paths) -> bool:
    """Whether the API server says it is ready."""
    try:
        return get(paths, "/readyz") == b"ok"
    except ApiError:
        return False
