"""The text of slurm.conf, slurmdbd.conf, cgroup.conf and sshd_config."""

from __future__ import annotations

from typing import Final

from lab.standins.slinky import names
from lab.standins.slinky.objects import Obj, dig, name_of, namespace_of

SPOOL_DIR: Final = "/var/spool/slurmctld"
_JWT_PARAMETER: Final = "jwt_key=/etc/slurm/jwt.key"
_SLURMCTLD_PARAMETERS: Final = ("enable_configless", "reconfig_on_restart")


def cluster_name(controller: Obj) -> str:
    """``spec.clusterName``, else ``<namespace>_<name>``."""
    return dig(controller, "spec", "clusterName") or f"{namespace_of(controller)}_{name_of(controller)}"


def slurm_set_name(nodeset: Obj) -> str:
    """A NodeSet's name in Slurm: the template's hostname without its dash, else the object's name."""
    hostname = dig(nodeset, "spec", "template", "spec", "hostname", default="")
    return hostname.strip().strip("-") or name_of(nodeset)


def _section(title: str, lines: list[str]) -> list[str]:
    return ["#", f"### {title} ###", *lines]


def slurm_conf(
    controller: Obj,
    nodesets: list[Obj],
    accounting: Obj | None,
    scripts: dict[str, list[str]] | None = None,
) -> str:
    """slurm.conf. ``scripts``: file names by "Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld"."""
    spec: Obj = controller["spec"]
    lines: list[str] = []
    lines += _section("GENERAL", _general(controller))
    log = "/var/log/slurm/slurmctld.log"
    lines += _section(
        "LOGGING",
        [f"SlurmctldLogFile={log}", f"SlurmSchedLogFile={log}", "SlurmdLogFile=/var/log/slurm/slurmd.log"],
    )
    plugins = [
        "AuthType=auth/slurm",
        "CredType=cred/slurm",
        "AuthAltTypes=auth/jwt",
        f"AuthAltParameters={_JWT_PARAMETER}",
        "AuthInfo=use_client_ids",
        f"SlurmctldParameters={','.join(_SLURMCTLD_PARAMETERS)}",
    ]
    if dig(spec, "metrics", "enabled", default=False):
        plugins.append("MetricsType=metrics/openmetrics")
    lines += _section("PLUGINS & PARAMETERS", plugins)
    lines += _section("ACCOUNTING", _accounting_lines(accounting))
    for title, keys, folder in (
        ("SLURMCTLD PROLOG & EPILOG", ("PrologSlurmctld", "EpilogSlurmctld"), "/etc/slurm/"),
        ("PROLOG & EPILOG", ("Prolog", "Epilog"), ""),
    ):
        found = [f"{key}={folder}{name}" for key in keys for name in sorted((scripts or {}).get(key, []))]
        if found:
            lines += _section(title, found)
    if nodesets:
        lines += _section("NODESET & PARTITION", _nodeset_lines(nodesets))
    extra: str = spec.get("extraConf", "")
    if extra:
        lines += _section("EXTRA CONFIG", [extra.rstrip("\n")])
    merged = _merged(
        extra,
        {
            "AuthAltParameters": [_JWT_PARAMETER],
            "AuthInfo": ["use_client_ids"],
            "SlurmctldParameters": list(_SLURMCTLD_PARAMETERS),
        },
    )
    if merged:
        lines += _section("MERGED CONFIG", merged)
    return "\n".join(lines) + "\n"


def _general(controller: Obj) -> list[str]:
    name, namespace = name_of(controller), namespace_of(controller)
    pod = names.controller_pod(name)
    host = f"{pod}({pod}.{names.controller_internal_service(name)}.{namespace})"
    return [
        f"ClusterName={cluster_name(controller)}",
        "SlurmUser=slurm",
        f"SlurmctldHost={host}",
        f"SlurmctldPort={names.SLURMCTLD_PORT}",
        f"SlurmctldAddr={names.controller_service(name)}.{namespace}",
        f"StateSaveLocation={SPOOL_DIR}/{cluster_name(controller)}",
        "SlurmdUser=root",
        f"SlurmdPort={names.SLURMD_PORT}",
        "SlurmdSpoolDir=/var/spool/slurmd",
        "MaxNodeCount=1024",
    ]


def _accounting_lines(accounting: Obj | None) -> list[str]:
    if accounting is None:
        return ["AccountingStorageType=accounting_storage/none"]
    external: Obj = dig(accounting, "spec", "externalConfig", default={})
    host = external.get("host") if dig(accounting, "spec", "external", default=False) else None
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        f"AccountingStorageHost={host or names.accounting(name_of(accounting))}",
        f"AccountingStoragePort={external.get('port', names.SLURMDBD_PORT) if host else names.SLURMDBD_PORT}",
    ]


def _nodeset_lines(nodesets: list[Obj]) -> list[str]:
    lines: list[str] = []
    for nodeset in sorted(nodesets, key=name_of):
        name = slurm_set_name(nodeset)
        lines.append(f"NodeSet={name} Feature={name}")
        partition: Obj = dig(nodeset, "spec", "partition", default={})
        if partition.get("enabled"):
            lines.append(f"PartitionName={name} Nodes={name} {partition.get('config', '')}")
    return lines


def key_values(text: str) -> dict[str, str]:
    """Settings of a Slurm config text: keys in lower case; comments, several words and broken lines left out."""
    out: dict[str, str] = {}
    for line in text.replace("\\\n", "").splitlines():
        key, equals, value = line.split("#", 1)[0].strip().partition("=")
        if equals and key.strip() and value.strip() and " " not in value.strip():
            out[key.strip().lower()] = value.strip()
    return out


def _merged(extra: str, own: dict[str, list[str]]) -> list[str]:
    """Lists that the user's text would overwrite, joined with the operator's own items again."""
    given = key_values(extra)
    lines: list[str] = []
    for key in sorted(own):
        if key.lower() not in given:
            continue
        items = list(own[key])
        known = {item.partition("=")[0].lower() for item in items}
        for item in given[key.lower()].split(","):
            option = item.partition("=")[0].lower()
            if item and option not in known:
                items.append(item.lower())
                known.add(option)
        lines.append(f"{key}={','.join(sorted(items))}")
    return lines


def cgroup_conf() -> str:
    """cgroup.conf when the user's own config files have none."""
    return "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n"


def slurmdbd_conf(accounting: Obj, storage_password: str) -> str:
    """slurmdbd.conf; holds the database password, so it goes into a Secret."""
    spec: Obj = accounting["spec"]
    storage: Obj = spec["storageConfig"]
    lines = _section(
        "GENERAL",
        [
            f"DbdHost={names.accounting(name_of(accounting))}-0",
            f"DbdPort={names.SLURMDBD_PORT}",
            "SlurmUser=slurm",
        ],
    )
    lines += _section(
        "PLUGINS & PARAMETERS",
        [
            "AuthType=auth/slurm",
            "AuthAltTypes=auth/jwt",
            f"AuthAltParameters={_JWT_PARAMETER}",
            "AuthInfo=use_client_ids",
        ],
    )
    lines += _section(
        "STORAGE",
        [
            "StorageType=accounting_storage/mysql",
            f"StorageHost={storage['host']}",
            f"StoragePort={storage.get('port', 3306)}",
            f"StorageUser={storage.get('username', '')}",
            f"StorageLoc={storage.get('database', 'slurm_acct_db')}",
            f"StoragePass={storage_password}",
        ],
    )
    lines += _section("LOGGING", ["LogFile=/dev/null"])
    extra: str = spec.get("extraConf", "")
    if extra:
        lines += _section("EXTRA CONFIG", [extra.rstrip("\n")])
    return "\n".join(lines) + "\n"


def sshd_config(extra: str) -> str:
    """sshd_config of a login or worker pod; the user's lines last."""
    lines = _section(
        "GENERAL",
        [
            "Include /etc/ssh/sshd_config.d/*.conf",
            "UsePAM yes",
            "X11Forwarding yes",
            "Subsystem sftp internal-sftp",
        ],
    )
    lines += _section("EXTRA CONFIG", [extra.rstrip("\n")])
    return "\n".join(lines) + "\n"


def authorized_keys(keys: str) -> str:
    """root's authorized_keys on a login pod."""
    return "\n".join(_section("SLINKY", [keys.rstrip("\n")])) + "\n"
