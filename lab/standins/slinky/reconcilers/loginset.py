"""LoginSet: login pods, their Service, sshd's files and host keys that are made once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncssh

from lab.standins.slinky import names
from lab.standins.slinky.builders import login as build
from lab.standins.slinky.builders import ssh
from lab.standins.slinky.context import Context
from lab.standins.slinky.kube import KubeError
from lab.standins.slinky.objects import Obj, checksum, dig, name_of, namespace_of

_ALGORITHMS = {"rsa": "ssh-rsa", "ed25519": "ssh-ed25519", "ecdsa": "ecdsa-sha2-nistp256"}

_make_key: Callable[[str], asyncssh.SSHKey] = asyncssh.generate_private_key  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


async def reconcile(ctx: Context, loginset: Obj) -> float | None:
    """Bring a LoginSet up to date. Raises ExpectedError while its Controller isn't there."""
    controller = ctx.controller(loginset)
    namespace, name = namespace_of(loginset), name_of(loginset)
    await _host_keys(ctx, loginset)
    config = await ctx.apply(ssh.config_map(loginset, build.KIND, build.labels(loginset)))
    await ctx.apply(build.service(loginset))
    sssd: Obj = loginset["spec"]["sssdConfRef"]
    hashes = {
        names.SSH_HOST_KEYS_HASH: checksum(ctx.secret_contents(namespace, names.ssh_host_keys(name))),
        names.SSHD_CONF_HASH: checksum(str(config["data"]["sshd_config"])),
        names.SSSD_CONF_HASH: checksum(ctx.secret_contents(namespace, sssd["name"]).get(sssd["key"], "")),
    }
    deployment = await ctx.apply(build.deployment(loginset, controller, hashes))
    selector = ",".join(
        f"{key}={value}" for key, value in sorted(deployment["spec"]["selector"]["matchLabels"].items())
    )
    await ctx.set_status(loginset, {"replicas": dig(deployment, "status", "replicas", default=0), "selector": selector})
    return None


def make_host_keys() -> dict[str, str]:
    """New host keys by file name; takes about a second."""
    out: dict[str, str] = {}
    for kind in ssh.KEY_KINDS:
        key = _make_key(_ALGORITHMS[kind])
        out[f"ssh_host_{kind}_key"] = key.export_private_key().decode()
        out[f"ssh_host_{kind}_key.pub"] = key.export_public_key().decode()
    return out


async def _host_keys(ctx: Context, loginset: Obj) -> None:
    """Keys are made once: a login host that changed its keys would look like an attack to its users."""
    if ctx.store.get("Secret", namespace_of(loginset), names.ssh_host_keys(name_of(loginset))) is not None:
        return
    keys = await asyncio.to_thread(make_host_keys)
    try:
        made = await ctx.kube.create(ssh.host_key_secret(loginset, build.labels(loginset), keys))
    except KubeError as error:
        if error.code != 409:
            raise
        return
    made["kind"] = "Secret"
    ctx.store.put(made)
