"""Slurm and the people who use it."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from sparewheel.api.gpu_pool import MAX_GRACE_SECONDS
from stacks.base import AbsoluteFile, Area, SecretName
from stacks.explain import shown
from stacks.routes import MailAddress
from stacks.slurm_keys import why_unknown
from stacks.ssh_keys import why_no_key

OURS: Final = {
    "KillWait": "set slurm.grace_seconds instead",
    "JobRequeue": "a struck job has to start again; a user's --no-requeue stands",
    "ReturnToService": "it is 1 here: with 2 a struck node takes the same job again half a second later",
    "SlurmctldParameters": "set slurm.slurmctld_parameters instead; ours are needed to requeue ahead of the queue",
    "SchedulerParameters": "set slurm.scheduler_parameters instead; ours make a requeue quick and safe",
    "JobSubmitPlugins": "the platform's filter makes batch jobs restart ahead of the queue",
    "GresTypes": "the platform sets it to gpu",
    "MinJobAge": "set slurm.min_job_age_seconds instead; healing has to find jobs that ended a while ago",
    "AccountingStorageTRES": "the platform sets it to gres/gpu",
    "MaxNodeCount": "the operator sets it",
    "ClusterName": "set slurm.cluster_name instead",
    "StateSaveLocation": "the operator mounts storage.state there; elsewhere every restart would lose the jobs",
    **dict.fromkeys(
        (
            "SlurmctldHost",
            "SlurmctldAddr",
            "SlurmctldPort",
            "SlurmdPort",
            "SlurmdSpoolDir",
            "SlurmUser",
            "SlurmdUser",
            "AuthType",
            "CredType",
            "AuthAltTypes",
            "AccountingStorageType",
            "AccountingStorageHost",
            "AccountingStoragePort",
        ),
        "the operator sets it, and its daemons find each other by it",
    ),
}
"""Lines of slurm.conf that belong to the platform, with what to do instead."""

OUR_SCHEDULING: Final = {
    "requeue_delay": "requeue_delay_seconds",
    "sched_interval": "sched_interval_seconds",
    "bf_interval": "sched_interval_seconds",
}
"""Items of SchedulerParameters that belong to the platform, with the setting that makes each."""

UserName = Annotated[str, Field(pattern=r"^[a-z_][-a-z0-9_]{0,31}$")]


def _one_line(line: str) -> str:
    if line.endswith("\\"):
        msg = f"{line[:40]!r} ends with a backslash, which takes the next line into it; write it without"
        raise ValueError(msg)
    return line


ConfLine = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]*=[^\r\n]*$"), AfterValidator(_one_line)]
ConfItem = Annotated[str, Field(pattern=r"^[A-Za-z_]+(=[^\s,]+)?$")]
Shell = Annotated[str, Field(pattern=r"^/[^\s'\":]*$")]

TAKEN: Final = frozenset(
    (  # Debian's base-passwd, then daemons
        *("root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy", "www-data"),
        *("backup", "list", "irc", "gnats", "_apt", "nobody", "adm", "tty", "disk", "kmem", "dialout", "fax", "voice"),
        *("cdrom", "floppy", "tape", "sudo", "audio", "dip", "operator", "src", "shadow", "utmp", "video", "sasl"),
        *("plugdev", "staff", "users", "nogroup", "wheel", "messagebus", "polkitd", "sshd", "_ssh"),
        *("slurm", "munge", "mysql"),
    )
)
"""Users and groups that the images have themselves: a key under such a name would open somebody else's account, and a
group would have two numbers."""

RESERVED_IDS: Final = {65532: "the platform's own daemons'", 65534: "nobody's", 65535: "no user's"}


class InClusterDatabase(Area):
    """A MariaDB that the stack runs."""

    kind: Literal["in_cluster"]


class ExternalDatabase(Area):
    """A MariaDB or MySQL of your own."""

    kind: Literal["external"]
    host: str = Field(
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9.:]*[A-Za-z0-9])?$", description="name or address of the database server"
    )
    port: int = Field(default=3306, ge=1, le=65535)
    name: str = Field(default="slurm_acct_db", pattern=r"^[A-Za-z0-9_]([-A-Za-z0-9_]{0,63})$")
    username: str = Field(default="slurm", pattern=r"^[A-Za-z0-9_]([-A-Za-z0-9_.@]{0,79})$")
    password_secret: SecretName = Field(description="secret of the stack with the database password")


Database = Annotated[InClusterDatabase | ExternalDatabase, Field(discriminator="kind")]


class Slurm(Area):
    """One Slurm cluster."""

    cluster_name: str = Field(
        default="slurm", pattern=r"^[a-z][a-z0-9_-]*$", max_length=40, description="Slurm's name of the cluster"
    )
    version: str = Field(
        pattern=r"^[0-9]{2}\.(05|11)$", description='Slurm release of the images, such as "26.05", in quotes'
    )
    grace_seconds: int = Field(
        default=MAX_GRACE_SECONDS,
        ge=0,
        le=MAX_GRACE_SECONDS,
        description="time a job has to checkpoint; 120 s is the most that the platform promises",
    )
    requeue_delay_seconds: int = Field(default=1, ge=1, le=300)
    sched_interval_seconds: int = Field(default=2, ge=1, le=60)
    min_job_age_seconds: int = Field(default=3600, ge=600, description="how long slurmctld remembers ended jobs")
    slurmctld_parameters: list[ConfItem] = Field(default_factory=list[str], description="added to ours")
    scheduler_parameters: list[ConfItem] = Field(default_factory=list[str], description="added to ours")
    extra_conf: list[ConfLine] = Field(default_factory=list[str], description="lines of slurm.conf, Key=Value")
    cgroup_conf: list[ConfLine] = Field(default_factory=list[str], description="lines of cgroup.conf, Key=Value")
    gpu_files: AbsoluteFile | None = Field(
        default=None,
        pattern=r"^[^#]*$",
        description="device files, such as /dev/nvidia[0-7], where NVML can't be asked; without it GPUs are detected",
    )
    node_checks: bool = Field(
        default=False,
        description="Slurm's Prolog and Epilog fail on a node with an open fault, so a job starts elsewhere by itself",
    )
    accounting: Database = Field(description="where the accounting database is: kind in_cluster or external")

    @field_validator("version")
    @classmethod
    def _new_enough(cls, value: str) -> str:
        if value < "25.11":
            msg = f"the operator needs Slurm 25.11 or newer, not {value}"
            raise ValueError(msg)
        return value

    @field_validator("extra_conf")
    @classmethod
    def _not_ours(cls, lines: list[str]) -> list[str]:
        wanted = {key.lower(): (key, instead) for key, instead in OURS.items()}
        for line in lines:
            for key in re.findall(r"(\w+)\s*=", line):  # slurm.conf takes several settings on one line
                found = wanted.get(key.lower())
                if found:
                    msg = f"{found[0]} is the platform's own setting: {found[1]}"
                    raise ValueError(msg)
        return lines

    @model_validator(mode="after")
    def _known_to_slurm(self) -> Self:
        wrong = next((found for line in self.extra_conf if (found := why_unknown(line, self.version))), "")
        if wrong:
            msg = f"extra_conf: {wrong}"
            raise ValueError(msg)
        return self

    @field_validator("scheduler_parameters")
    @classmethod
    def _ours_stand(cls, items: list[str]) -> list[str]:
        for item in items:
            instead = OUR_SCHEDULING.get(item.partition("=")[0].lower())
            if instead:
                msg = f"{item} is the platform's own setting: set slurm.{instead} instead"
                raise ValueError(msg)
        return items


def _free_id(number: int) -> int:
    if number in RESERVED_IDS:
        msg = f"{number} is {RESERVED_IDS[number]} id; choose another"
        raise ValueError(msg)
    return number


Id = Annotated[int, Field(ge=1000, le=2**31 - 2), AfterValidator(_free_id)]


class Group(Area):
    name: UserName = Field(description="name of the group")
    gid: Id = Field(description="group id, the same on every node")


class User(Area):
    """A person who logs in and submits jobs."""

    name: UserName = Field(description="name of the user, also of the home folder")
    uid: Id = Field(description="user id, the same on every node; also the id of the own group")
    ssh_keys: list[str] = Field(min_length=1, description="public SSH keys that may log in")
    groups: list[UserName] = Field(default_factory=list[str], description="names from groups")
    shell: Shell = "/bin/bash"
    email: MailAddress | None = Field(default=None, description="where the user is told what happens to their jobs")
    slack: str | None = Field(
        default=None, pattern=r"^[UW][A-Z0-9]{4,30}$", description="Slack's member id of the user, such as U012AB3CD"
    )

    @field_validator("ssh_keys")
    @classmethod
    def _public_keys(cls, keys: list[str]) -> list[str]:
        for key in keys:
            msg = why_no_key(key)
            if msg:
                raise ValueError(msg)
        return keys


def _network(value: str) -> str:
    try:
        ipaddress.ip_network(value)
    except ValueError:
        msg = f"{shown(value)} is no network such as 198.51.100.0/24"
        raise ValueError(msg) from None
    return value


class LoginService(Area):
    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "LoadBalancer"
    source_ranges: list[Annotated[str, AfterValidator(_network)]] = Field(
        default_factory=list[str], description="networks from which people log in, with LoadBalancer"
    )
    node_port: int | None = Field(default=None, ge=30000, le=32767, description="port on every host, with NodePort")
    address: str | None = Field(
        default=None, pattern=r"^\S+$", description="name or address that users type, for the stack's outputs"
    )

    @model_validator(mode="after")
    def _ranges_are_kept(self) -> Self:
        if self.source_ranges and self.type != "LoadBalancer":
            msg = f"source_ranges work with type LoadBalancer only, and this is {self.type}"
            raise ValueError(msg)
        return self


class Login(Area):
    replicas: int = Field(default=1, ge=1, le=20)
    service: LoginService = LoginService()
