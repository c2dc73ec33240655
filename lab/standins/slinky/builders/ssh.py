"""SSH for login and worker pods: the sshd ConfigMap, host keys, and their volumes and mounts."""

from __future__ import annotations

from typing import Final

from lab.standins.slinky import names
from lab.standins.slinky.builders import common, confs
from lab.standins.slinky.objects import Obj, dig, encoded, meta, name_of

SSH_CONFIG: Final = "ssh-config"
HOST_KEYS: Final = "ssh-host-keys"
SSSD_CONF: Final = "sssd-conf"
KEY_KINDS: Final = ("rsa", "ed25519", "ecdsa")


def host_key_files() -> list[tuple[str, int]]:
    """File names of host keys and their modes, private before public."""
    return [(f"ssh_host_{kind}_key{end}", mode) for kind in KEY_KINDS for end, mode in (("", 0o600), (".pub", 0o644))]


def config_map(parent: Obj, kind: str, labels: dict[str, str]) -> Obj:
    """ConfigMap ``<name>-ssh-config``: sshd_config, and on a LoginSet root's authorized_keys."""
    login = kind == "LoginSet"
    extra = dig(parent, "spec", "extraSshdConfig") if login else dig(parent, "spec", "ssh", "extraSshdConfig")
    data = {"sshd_config": confs.sshd_config(extra or "")}
    if login:
        data["authorized_keys"] = confs.authorized_keys(dig(parent, "spec", "rootSshAuthorizedKeys", default=""))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta(names.ssh_config(name_of(parent)), parent, kind, labels),
        "immutable": False,
        "data": data,
    }


def host_key_secret(parent: Obj, labels: dict[str, str], keys: dict[str, str]) -> Obj:
    """Secret ``<name>-ssh-host-keys``; ``keys`` by file name."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": meta(names.ssh_host_keys(name_of(parent)), parent, "LoginSet", labels),
        "data": encoded(keys),
    }


def config_volume(name: str, files: list[str]) -> Obj:
    """Volume with files of the sshd ConfigMap."""
    items = [{"key": file, "path": file, "mode": 0o600} for file in files]
    source = {"configMap": {"name": names.ssh_config(name), "items": items}}
    return common.projected(SSH_CONFIG, 0o600, [source])


def host_key_volume(name: str) -> Obj:
    """Volume with the host keys."""
    items = [{"key": file, "path": file, "mode": mode} for file, mode in host_key_files()]
    return common.projected(HOST_KEYS, 0o600, [{"secret": {"name": names.ssh_host_keys(name), "items": items}}])


def sssd_volume(ref: Obj, mode: int | None) -> Obj:
    """Volume with sssd.conf."""
    return common.projected(SSSD_CONF, 0o600, [common.secret_item(ref, "sssd.conf", mode)])


def mount(volume: str, path: str, file: str) -> Obj:
    """One file of a volume at a path."""
    return {"name": volume, "mountPath": path, "subPath": file, "readOnly": True}
