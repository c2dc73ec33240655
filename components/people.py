"""The users' accounts as files: the same names and ids on login, workers and slurmctld, changed without a restart."""

from __future__ import annotations

from typing import Any, Final

import pulumi
import pulumi_kubernetes as k8s

from components.names import SLURM_NAMESPACE, USER_KEYS_CONFIG, USERS_CONFIG
from stacks.slurm import Group, User

ACCOUNTS_FOLDER: Final = "/var/lib/extrausers"
"""Where libnss-extrausers looks. A whole folder is mounted, so kubelet brings changes into running pods."""
KEYS_FOLDER: Final = "/etc/ssh/authorized_keys.d"


def account_files(users: list[User], groups: list[Group]) -> dict[str, str]:
    """passwd, group and shadow; nobody has a password, each user has a group of the own name and number."""
    passwd = [f"{user.name}:x:{user.uid}:{user.uid}::/home/{user.name}:{user.shell}" for user in users]
    shadow = [f"{user.name}:*:19000:0:99999:7:::" for user in users]
    members = {group.name: [user.name for user in users if group.name in user.groups] for group in groups}
    own = [f"{user.name}:x:{user.uid}:" for user in users]
    shared = [f"{group.name}:x:{group.gid}:{','.join(members[group.name])}" for group in groups]
    return {"passwd": _text(passwd), "group": _text(own + shared), "shadow": _text(shadow)}


def key_files(users: list[User]) -> dict[str, str]:
    """One file of public keys per user."""
    return {user.name: _text([key.strip() for key in user.ssh_keys]) for user in users}


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def accounts_volume() -> dict[str, Any]:
    return {"name": "accounts", "configMap": {"name": USERS_CONFIG}}


def accounts_mount() -> dict[str, Any]:
    return {"name": "accounts", "mountPath": ACCOUNTS_FOLDER, "readOnly": True}


def keys_volume() -> dict[str, Any]:
    return {"name": "user-keys", "configMap": {"name": USER_KEYS_CONFIG}}


def keys_mount() -> dict[str, Any]:
    return {"name": "user-keys", "mountPath": KEYS_FOLDER, "readOnly": True}


class People(pulumi.ComponentResource):
    """Accounts and keys. A user added here can log in within the minute that kubelet takes."""

    def __init__(
        self, name: str, users: list[User], groups: list[Group], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("sparewheel:platform:People", name, None, opts)
        for config, files in ((USERS_CONFIG, account_files(users, groups)), (USER_KEYS_CONFIG, key_files(users))):
            k8s.core.v1.ConfigMap(
                config,
                metadata={"name": config, "namespace": SLURM_NAMESPACE},
                data=files,
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})
