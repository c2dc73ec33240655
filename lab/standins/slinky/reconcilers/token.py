"""Token: a Secret with a Slurm JWT, renewed in time."""

from __future__ import annotations

from lab.standins.slinky import slurm_jwt
from lab.standins.slinky.builders import token as build
from lab.standins.slinky.builders.common import jwt_ref
from lab.standins.slinky.context import Context
from lab.standins.slinky.objects import Obj, decoded, dig, format_time, namespace_of


async def reconcile(ctx: Context, token: Obj) -> float | None:
    """Make or renew the Secret; returns the seconds until its next renewal. Raises ExpectedError without the key."""
    namespace = namespace_of(token)
    key = ctx.secret_value(namespace, jwt_ref(token["spec"]))
    now = ctx.clock.now()
    ref = build.secret_ref(token)
    held = ctx.store.get("Secret", namespace, ref["name"])
    refresh: bool = dig(token, "spec", "refresh", default=True)
    life = slurm_jwt.life(decoded(held).get(ref["key"], b"").decode(), key) if held else None
    if held is None or (refresh and (life is None or now >= build.renew_at(*life))):
        await ctx.apply(build.secret(token, key, now))
        await ctx.set_status(token, {"issuedAt": format_time(now)})
        return build.duration_seconds(dig(token, "spec", "lifetime")) * build.TOKEN_RENEWAL_SHARE if refresh else None
    if life is None:
        return None
    await ctx.set_status(token, {"issuedAt": format_time(life[0])})
    return max(1.0, (build.renew_at(*life) - now).total_seconds()) if refresh else None
