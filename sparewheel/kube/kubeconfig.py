"""What a kubeconfig says: the cluster and the user of one of its contexts. No I/O, and nothing of it in an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml


class AccessError(Exception):
    """The kubeconfig or the pod's credentials can't be used; the message names the file and what is missing."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One context."""

    name: str
    server: str
    cluster: dict[str, Any]
    user: dict[str, Any]
    namespace: str


def read_kubeconfig(text: str, context: str | None = None, source: str = "kubeconfig") -> Chosen:
    """The context of that name, else the current one. AccessError for what is no whole kubeconfig."""
    try:
        config = yaml.safe_load(text)
        name = context or config["current-context"]
        chosen = _named(config["contexts"], name)["context"]
        cluster: dict[str, Any] = _named(config["clusters"], chosen["cluster"])["cluster"]
        user: dict[str, Any] = _named(config["users"], chosen["user"])["user"] if chosen.get("user") else {}
        server = str(cluster["server"]).rstrip("/")
        namespace = str(chosen.get("namespace") or "default")
    except yaml.YAMLError as error:  # in words it would quote the line, which may hold a token
        what = getattr(error, "problem", None) or type(error).__name__
        raise _incomplete(source, f"it is no YAML: {what}") from None
    except KeyError as error:
        raise _incomplete(source, f"{error} is missing") from None
    except (TypeError, AttributeError):
        raise _incomplete(source, "it has no clusters, users and contexts") from None
    return Chosen(str(name), server, cluster, user, namespace)


def _incomplete(source: str, what: str) -> AccessError:
    return AccessError(f"{source} is no complete kubeconfig ({what}); print a new one from the cluster")


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise KeyError(name)
