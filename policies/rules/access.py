"""Who may do what: rights in the cluster, and who gets onto a login node, how and from where."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from policies.allowed import ALL_SECRETS, is_allowed
from policies.model import Given, Level, Resource, Rule
from policies.values import fields, items, spec, text
from stacks.ssh_keys import FIELDS, MIN_RSA_BITS, rsa_bits

_ROLES: Final = ("Role", "ClusterRole")
_EVERYBODY: Final = ("system:anonymous", "system:unauthenticated", "system:authenticated", "system:serviceaccounts")
_CLIMB: Final = ("escalate", "bind", "impersonate")
_SSHD: Final = {"passwordauthentication": "no", "kbdinteractiveauthentication": "no", "permitrootlogin": "no"}
_WORDS: Final = {
    "passwordauthentication": "PasswordAuthentication",
    "kbdinteractiveauthentication": "KbdInteractiveAuthentication",
    "permitrootlogin": "PermitRootLogin",
}


def no_wildcard_rights(resource: Resource, _given: Given) -> Iterator[str]:
    """A role names each group, resource and verb."""
    if resource.kind not in _ROLES:
        return
    for rule in items(resource.inputs, "rules"):
        for field in ("apiGroups", "resources", "verbs"):
            if any("*" in str(one) for one in items(rule, field)):
                yield f"role {resource.name}: {field} has '*'; name each one that is needed"
        climb = [verb for verb in items(rule, "verbs") if verb in _CLIMB]
        if climb:
            yield f"role {resource.name}: may {climb[0]}, and so give itself any right; take it off"


def secrets_by_name(resource: Resource, _given: Given) -> Iterator[str]:
    """Whoever uses secrets uses named ones."""
    if resource.kind not in _ROLES or is_allowed(ALL_SECRETS, resource.kind, resource.name, "secrets"):
        return
    for rule in items(resource.inputs, "rules"):
        if set(items(rule, "verbs")) == {"create"}:
            continue  # it reads and changes none, and no right to create can be given by name
        if "secrets" in items(rule, "resources") and not items(rule, "resourceNames"):
            yield f"role {resource.name}: may use every secret; give resourceNames"


def rights_for_named_accounts(resource: Resource, _given: Given) -> Iterator[str]:
    """Nobody is made administrator, and no right is everybody's."""
    if resource.kind not in ("RoleBinding", "ClusterRoleBinding"):
        return
    role = text(resource.inputs, "roleRef", "name")
    if role in ("cluster-admin", "admin"):
        yield f"{resource.label}: gives {role}; bind a role that names its rights"
    for subject in items(resource.inputs, "subjects"):
        name = text(subject, "name")
        if name.startswith(_EVERYBODY):
            yield f"{resource.label}: gives {role} to {name}, which is everybody; name an account"


def ssh_keys_are_strong(resource: Resource, _given: Given) -> Iterator[str]:
    """Users' SSH keys are Ed25519, ECDSA, on a security key, or RSA of 3072 bits and more."""
    if resource.kind != "ConfigMap":
        return
    for name, content in fields(resource.inputs, "data").items():
        for line in str(content).splitlines():
            words = line.split()
            kind = words[0] if len(words) > 1 else ""
            if kind not in FIELDS:
                if kind.startswith(("ssh-", "ecdsa-", "sk-")):
                    yield f"{resource.label}: {name} has a key of type {kind}; make one with 'ssh-keygen -t ed25519'"
                continue
            bits = rsa_bits(line)
            if bits is not None and bits < MIN_RSA_BITS:
                yield (
                    f"{resource.label}: {name} has an RSA key of {bits} bits; {MIN_RSA_BITS} or more, "
                    "or make one with 'ssh-keygen -t ed25519'"
                )


def login_by_key_only(resource: Resource, _given: Given) -> Iterator[str]:
    """A login node takes keys alone, and never root."""
    if resource.kind != "LoginSet":
        return
    set_here: dict[str, str] = {}
    for line in text(spec(resource), "extraSshdConfig").splitlines():
        key, _, value = line.strip().partition(" ")
        set_here.setdefault(key.lower(), value.strip().lower())  # of two lines sshd takes the first
    for key, wanted in _SSHD.items():
        if set_here.get(key) != wanted:
            yield f"{resource.label}: {_WORDS[key]} is {set_here.get(key, 'not set')}; set it to {wanted}"
    if text(spec(resource), "rootSshAuthorizedKeys"):
        yield f"{resource.label}: rootSshAuthorizedKeys lets people in as root; give them accounts"


def login_from_known_places(resource: Resource, _given: Given) -> Iterator[str]:
    """A service that is reached from outside says from which networks."""
    kind = text(spec(resource), "type")
    if resource.kind != "Service" or kind not in ("LoadBalancer", "NodePort"):
        return
    if kind == "NodePort":
        yield f"{resource.label}: a NodePort takes calls from anywhere; use LoadBalancer with source ranges"
        return
    ranges = [str(one) for one in items(spec(resource), "loadBalancerSourceRanges")]
    if not ranges:
        yield f"{resource.label}: takes calls from anywhere; set login.service.source_ranges"
    for one in ranges:
        if _is_everywhere(one):
            yield f"{resource.label}: the source range {one} is the whole world; name your networks"


def _is_everywhere(network: str) -> bool:
    try:
        return ipaddress.ip_network(network, strict=False).prefixlen == 0
    except ValueError:
        return False


RULES: Final = (
    Rule("no-wildcard-rights", Level.MANDATORY, "Kubernetes: RBAC good practices", check=no_wildcard_rights),
    Rule("secrets-by-name", Level.MANDATORY, "Kubernetes: RBAC good practices", check=secrets_by_name),
    Rule(
        "rights-for-named-accounts",
        Level.MANDATORY,
        "Kubernetes: RBAC good practices",
        check=rights_for_named_accounts,
    ),
    Rule(
        "ssh-keys-are-strong",
        Level.MANDATORY,
        "NIST SP 800-57 part 1: 128 bits of strength",
        check=ssh_keys_are_strong,
    ),
    Rule("login-by-key-only", Level.MANDATORY, "sshd_config(5)", check=login_by_key_only),
    Rule(
        "login-from-known-places",
        Level.MANDATORY,
        "Kubernetes: Service, loadBalancerSourceRanges",
        check=login_from_known_places,
        production_only=True,
    ),
)
