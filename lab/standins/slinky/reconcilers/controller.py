"""Controller: Services, slurm.conf, slurmctld, the active pod's label, and whether Slurm answers."""

from __future__ import annotations

from typing import Final

from lab.standins.slinky import names
from lab.standins.slinky.builders import confs
from lab.standins.slinky.builders import controller as build
from lab.standins.slinky.builders.common import jwt_ref
from lab.standins.slinky.context import Context
from lab.standins.slinky.objects import Obj, checksum, dig, labels_of, name_of, namespace_of
from lab.standins.slinky.pace import CONTROLLER_RESYNC_SECONDS, NO_RESTAPI_RECHECK_SECONDS
from lab.standins.slinky.queue import ExpectedError
from lab.standins.slinky.slurm_rest import SlurmError

_REACHABLE: Final = "SlurmReachable"
_OWN_FILES: Final = ("slurm.conf", "slurmdbd.conf")


async def reconcile(ctx: Context, controller: Obj) -> float | None:
    """Bring everything of one Controller up to date."""
    spec: Obj = controller["spec"]
    unsupported = [what for what, used in _unsupported(spec).items() if used]
    if unsupported:
        message = f"the stand-in doesn't serve spec.{', spec.'.join(unsupported)}"
        conditions = ctx.conditions(controller, [("StandInUnsupported", True, "NotServed", message)])
        await ctx.set_status(controller, {"conditions": conditions})
        await ctx.event(controller, "Controller", "NotServed", message, warning=True)
        return None
    for service in build.services(controller):
        await ctx.apply(service)
    config = await _config(ctx, controller)
    hashes = {
        names.SLURM_KEY_HASH: checksum(ctx.secret_contents(namespace_of(controller), spec["slurmKeyRef"]["name"])),
        names.JWT_KEY_HASH: checksum(ctx.secret_contents(namespace_of(controller), jwt_ref(spec)["name"])),
    }
    if not spec.get("inplaceReconfigure", False):
        hashes[names.SLURM_CONFIG_HASH] = checksum(config["data"])
    await ctx.apply(build.stateful_set(controller, hashes))
    await _label_active_pod(ctx, controller)
    return await _status(ctx, controller)


def _unsupported(spec: Obj) -> dict[str, bool]:
    return {
        "external": bool(spec.get("external", False)),
        "ha": bool(dig(spec, "ha", "enabled", default=False)),
        "jwksKeyRef": bool(spec.get("jwksKeyRef")),
        "metrics.serviceMonitor": bool(dig(spec, "metrics", "serviceMonitor", "enabled", default=False)),
    }


def _file_names(ctx: Context, controller: Obj, field: str) -> list[str]:
    """File names in the ConfigMaps that a field refers to. Raises ExpectedError while one isn't there."""
    out: list[str] = []
    for name in build.refs(controller, field):
        found = ctx.store.get("ConfigMap", namespace_of(controller), name)
        if found is None:
            raise ExpectedError(f"spec.{field}: ConfigMap {namespace_of(controller)}/{name} doesn't exist yet")
        out += sorted(found.get("data") or {})
    return out


async def _config(ctx: Context, controller: Obj) -> Obj:
    namespace = namespace_of(controller)
    files = _file_names(ctx, controller, "configFileRefs")
    taken = [file for file in files if file in _OWN_FILES]
    if taken:
        message = f"spec.configFileRefs brings {', '.join(taken)}, which the operator writes itself; use spec.extraConf"
        conditions = ctx.conditions(controller, [("ConfigFilesValid", False, "ReservedFileName", message)])
        await ctx.set_status(controller, {"conditions": conditions})
        await ctx.event(controller, "Controller", "ReservedFileName", message, warning=True)
        raise ExpectedError(message)
    scripts = {key: _file_names(ctx, controller, field) for key, field in build.REF_FIELDS.items()}
    name = dig(controller, "spec", "accountingRef", "name", default="")
    accounting = ctx.store.get("Accounting", namespace, name) if name else None
    nodesets = [
        one
        for one in ctx.store.all("NodeSet", namespace)
        if dig(one, "spec", "controllerRef", "name") == name_of(controller)
    ]
    text = confs.slurm_conf(controller, nodesets, accounting, scripts)
    return await ctx.apply(build.config_map(controller, text, with_cgroup_conf="cgroup.conf" not in files))


async def _label_active_pod(ctx: Context, controller: Obj) -> None:
    """The client Service selects the active slurmctld by a label; with one replica that is pod 0."""
    pod = ctx.store.get("Pod", namespace_of(controller), names.controller_pod(name_of(controller)))
    if pod is not None and labels_of(pod).get(names.CONTROLLER_ACTIVE) != "true":
        await ctx.patch(pod, {"metadata": {"labels": {names.CONTROLLER_ACTIVE: "true"}}})


async def _status(ctx: Context, controller: Obj) -> float:
    slurm = ctx.slurm(controller)
    again = CONTROLLER_RESYNC_SECONDS
    told: tuple[str, bool, str, str]
    if slurm is None:
        told = (_REACHABLE, False, "NoSlurmClient", "No RestApi refers to this Controller, so Slurm can't be asked")
        again = NO_RESTAPI_RECHECK_SECONDS
    else:
        try:
            await slurm.ping()
            told = (_REACHABLE, True, "Reachable", "slurmctld answers through slurmrestd")
        except SlurmError:
            told = (_REACHABLE, False, "Unreachable", "slurmctld doesn't answer through slurmrestd")
    conditions = ctx.conditions(controller, [told], drop=["StandInUnsupported", "ConfigFilesValid"])
    await ctx.set_status(controller, {"conditions": conditions})
    return again
