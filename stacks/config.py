"""The model of one stack: everything ``stacks/Pulumi.<env>.yaml`` may say, and one message that says all that is wrong.

The rule and the sentence that the user sees stand together, in the validators of the areas' models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Self

from pydantic import Field, ValidationError, model_validator

from sparewheel.api.enums import NodeActionKind
from sparewheel.api.gpu_pool import can_power_cycle
from stacks.base import CREDENTIALS_SECRET, Area
from stacks.charts import ChartsOperator, wrong_slurm
from stacks.crusoe import CrusoeCluster, from_cluster, wrong_node_pool
from stacks.explain import explain
from stacks.kubeadm import KubeadmCluster, in_a_pool
from stacks.placeholders import to_fill_in, unprintable
from stacks.platform import Cluster, ExistingCluster, Images, ManifestsOperator, Operator, Storage
from stacks.pools import Pool, shared_hosts
from stacks.remediation import RemediationConfig
from stacks.routes import secret_fields
from stacks.slurm import TAKEN, ExternalDatabase, Group, InClusterDatabase, Login, Slurm, User

HEARTBEATS_MISSED: Final = 3
"""A node is never lost for fewer heartbeats than this: one late report is no silence."""


class ConfigError(Exception):
    """The stack's config is wrong; the message lists every setting that is, with what would be right."""


class StackConfig(Area):
    """A whole stack. Each field is one key of the stack's file, ``sparewheel:FIELD``."""

    cluster: Cluster = Field(
        description="where the Kubernetes cluster comes from: kind existing, command, kubeadm or crusoe"
    )
    operator: Operator = Field(description="where Slinky's operator comes from: kind manifests or charts")
    images: Images = Field(description="container images")
    slurm: Slurm = Field(description="Slurm's settings")
    storage: Storage = Field(description="disks")
    users: list[User] = Field(default_factory=list[User], description="people who log in")
    groups: list[Group] = Field(default_factory=list[Group], description="groups that users are in")
    login: Login = Login()
    pools: list[Pool] = Field(default_factory=list[Pool], description="GPU pools")
    remediation: RemediationConfig = RemediationConfig()

    @model_validator(mode="before")
    @classmethod
    def _crusoe(cls, raw: object) -> object:
        return from_cluster(raw)

    @model_validator(mode="after")
    def _node_pools(self) -> Self:
        made = isinstance(self.cluster, CrusoeCluster)
        for index, pool in enumerate(self.pools):
            wrong = wrong_node_pool(pool.node_pool, cluster_made=made) if pool.node_pool else ""
            if wrong:
                msg = f"pools.{index}.{wrong}"
                raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _slurm_of_the_operator(self) -> Self:
        msg = wrong_slurm(self.operator, self.slurm.version) if isinstance(self.operator, ChartsOperator) else ""
        if msg:
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _people(self) -> Self:
        names = [user.name for user in self.users] + [group.name for group in self.groups]
        ids = [user.uid for user in self.users] + [group.gid for group in self.groups]
        for name in names:
            if names.count(name) > 1:
                msg = f"users and groups: the name {name} is used twice; each user and group has its own"
                raise ValueError(msg)
        for name in names:
            if name in TAKEN:
                msg = f"users and groups: {name} is in the images already, and is not for people; choose another name"
                raise ValueError(msg)
        for number in ids:
            if ids.count(number) > 1:
                msg = f"users and groups: the id {number} is used twice; files would belong to both"
                raise ValueError(msg)
        known = {group.name for group in self.groups}
        for user in self.users:
            for group in user.groups:
                if group not in known:
                    msg = f"users: {user.name} is in group {group}, which isn't under groups; add it there"
                    raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _pool_names(self) -> Self:
        names = [pool.name for pool in self.pools]
        for name in names:
            if names.count(name) > 1:
                msg = f"pools: {name} is there twice; each pool has its own name"
                raise ValueError(msg)
        msg = shared_hosts(self.pools)
        if msg:
            raise ValueError(msg)
        if sum(pool.partition.default for pool in self.pools) > 1:
            msg = "pools: more than one has partition.default true; leave it at one"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _control_plane(self) -> Self:
        if isinstance(self.cluster, KubeadmCluster):
            msg = in_a_pool(self.cluster.control_plane, self.pools)
            if msg:
                raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _pools_of_routes(self) -> Self:
        known = {pool.name for pool in self.pools}
        for index, route in enumerate(self.remediation.routes):
            for name in route.pools:
                if name not in known:
                    msg = f"remediation.routes.{index}.pools: there is no pool {name}; the pools are {sorted(known)}"
                    raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _silence(self) -> Self:
        shortest = HEARTBEATS_MISSED * self.remediation.agent.heartbeat_interval_seconds
        for index, pool in enumerate(self.pools):
            if pool.node_lost_seconds < shortest:
                msg = (
                    f"pools.{index}.node_lost_seconds: {pool.node_lost_seconds:g} s is less than {HEARTBEATS_MISSED} "
                    f"heartbeats of remediation.agent.heartbeat_interval_seconds; make it {shortest:g} or more"
                )
                raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _ladders(self) -> Self:
        if self.remediation.agent.node_actions:
            return self
        places = [("remediation.ladder", self.remediation.ladder, self.pools)]
        places += [(f"pools.{index}.ladder", pool.ladder, [pool]) for index, pool in enumerate(self.pools)]
        for path, ladder, pools in places:
            if ladder is None or not ladder.rungs:
                continue
            from_outside = ladder.rungs == [NodeActionKind.REBOOT]
            if not from_outside or not any(can_power_cycle(pool.backend) for pool in pools):
                msg = (
                    f"{path}: no host has a helper that could do this; "
                    "set remediation.agent.node_actions to true, or leave the ladder away "
                    "(rungs: [reboot] needs none where a pool's backend can power cycle: crusoe, machines with power)"
                )
                raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _drill(self) -> Self:
        drill, known = self.remediation.drill, sorted(pool.name for pool in self.pools)
        if drill is None:
            return self
        if not self.remediation.agent.allow_drills:
            msg = "remediation.drill: the agents act on no drill; set remediation.agent.allow_drills to true"
            raise ValueError(msg)
        for name in drill.pools:
            if name not in known:
                msg = f"remediation.drill.pools: there is no pool {name}; the pools are {known}"
                raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _database_disk(self) -> Self:
        if isinstance(self.slurm.accounting, InClusterDatabase) and self.storage.database is None:
            msg = "storage.database: is missing; slurm.accounting in_cluster needs a disk for its database"
            raise ValueError(msg)
        return self

    def secret_names(self) -> Iterator[tuple[str, str]]:
        """(path of the setting, name of the stack's secret) for each secret that a setting names."""
        if isinstance(self.cluster, ExistingCluster) and self.cluster.kubeconfig_secret:
            yield "cluster.kubeconfig_secret", self.cluster.kubeconfig_secret
        if isinstance(self.cluster, KubeadmCluster):
            yield "cluster.control_plane.key_secret", self.cluster.control_plane.key_secret
        if isinstance(self.cluster, CrusoeCluster):
            yield "cluster.access.key_ref", self.cluster.access.key_ref.key
        if isinstance(self.slurm.accounting, ExternalDatabase):
            yield "slurm.accounting.password_secret", self.slurm.accounting.password_secret
        yield from self.credential_names()

    def credential_names(self) -> Iterator[tuple[str, str]]:
        """As ``secret_names``, but only those that our controller needs in the cluster."""
        for index, pool in enumerate(self.pools):
            body = pool.backend.model_dump()
            for path, ref in _key_refs(body, f"pools.{index}.backend"):
                if ref["name"] == CREDENTIALS_SECRET:
                    yield path, ref["key"]
        for index, route in enumerate(self.remediation.routes):
            for setting, name in secret_fields(route).items():
                yield f"remediation.routes.{index}.{setting}", name


def _key_refs(body: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, str]]]:
    for key, value in body.items():
        if key == "key_ref":
            yield f"{path}.key_ref", value
        elif isinstance(value, dict):
            yield from _key_refs(value, f"{path}.{key}")  # pyright: ignore[reportUnknownArgumentType]


def area_names() -> list[str]:
    """The keys that hold an area; every other key of the stack's file must be a secret that a setting names."""
    return list(StackConfig.model_fields)


def parse(
    raw: Mapping[str, object],
    has_secret: Callable[[str], bool] = lambda _: True,
    has_manifests: Callable[[str], bool] = lambda _: True,
) -> StackConfig:
    """Read a whole stack. ConfigError lists every wrong setting at once, each with its path and what would be right.

    ``has_secret``: is there a secret of that name? ``has_manifests``: is there a folder of YAML files at that path?
    """
    left = to_fill_in(raw)
    if left:
        raise ConfigError(_message(left, "still to be filled in"))
    typed = unprintable(raw)
    if typed:
        raise ConfigError(_message(typed))
    try:
        config = StackConfig.model_validate({key: value for key, value in raw.items() if value is not None})
    except ValidationError as error:
        raise ConfigError(_message(explain(error, StackConfig))) from None
    missing = [
        f"{path}: the stack has no secret {name}; set it with 'pulumi config set --secret {name}'"
        for path, name in config.secret_names()
        if not has_secret(name)
    ]
    operator = config.operator
    if isinstance(operator, ManifestsOperator) and not has_manifests(operator.path):
        missing.append(
            f"operator.path: {operator.path} is no folder with .yaml files; "
            "give one with Slinky's operator, from the project's root on"
        )
    network = config.cluster.network if isinstance(config.cluster, KubeadmCluster) else None
    if network is not None and not has_manifests(network):
        missing.append(
            f"cluster.network: {network} is no folder with .yaml files; "
            "give one with the pods' network (CNI), from the project's root on"
        )
    if missing:
        raise ConfigError(_message(missing))
    return config


def _message(lines: list[str], what: str = "wrong") -> str:
    count = "one setting is" if len(lines) == 1 else f"{len(lines)} settings are"
    return "\n".join([f"{count} {what} in the stack's config:", *(f"  {line}" for line in lines)])
