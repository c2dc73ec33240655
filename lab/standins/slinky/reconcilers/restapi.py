"""RestApi: slurmrestd and its Service."""

from __future__ import annotations

from lab.standins.slinky.builders import restapi as build
from lab.standins.slinky.context import Context
from lab.standins.slinky.objects import Obj


async def reconcile(ctx: Context, restapi: Obj) -> float | None:
    """Bring slurmrestd up to date. Raises ExpectedError while its Controller isn't there."""
    await ctx.apply(build.service(restapi))
    await ctx.apply(build.deployment(restapi, ctx.controller(restapi)))
    return None
