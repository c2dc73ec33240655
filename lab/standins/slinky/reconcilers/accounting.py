"""Accounting: slurmdbd, its config Secret and its Service."""

from __future__ import annotations

from lab.standins.slinky import names
from lab.standins.slinky.builders import accounting as build
from lab.standins.slinky.builders.common import jwt_ref
from lab.standins.slinky.context import Context
from lab.standins.slinky.objects import Obj, checksum, namespace_of


async def reconcile(ctx: Context, accounting: Obj) -> float | None:
    """Bring slurmdbd up to date. Raises ExpectedError while the database password's Secret isn't there."""
    spec: Obj = accounting["spec"]
    if spec.get("external", False):
        return None
    namespace = namespace_of(accounting)
    password = ctx.secret_value(namespace, spec["storageConfig"]["passwordKeyRef"]).decode()
    secret = build.config_secret(accounting, password)
    await ctx.apply(build.service(accounting))
    await ctx.apply(secret)
    hashes = {
        names.SLURM_KEY_HASH: checksum(ctx.secret_contents(namespace, spec["slurmKeyRef"]["name"])),
        names.JWT_KEY_HASH: checksum(ctx.secret_contents(namespace, jwt_ref(spec)["name"])),
        names.SLURMDBD_CONF_HASH: checksum(secret["data"]),
    }
    await ctx.apply(build.stateful_set(accounting, hashes))
    return None
