"""The dynamic resources at Crusoe Cloud as plain objects: no I/O in check and diff, the rest against the played one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import pytest
from pulumi.dynamic import CreateResult, ReadResult
from pulumi.runtime.rpc import UNKNOWN

import sparewheel.clock
from components import crusoe_cluster
from components.crusoe_cluster import CrusoeClusterProvider, CrusoeKubeconfigProvider
from components.crusoe_resources import CrusoeHealerProvider, CrusoeNodePoolProvider
from components.plainly import NotDone
from lab.standins.crusoe.cloud import Cloud
from sparewheel.clock import SystemClock
from sparewheel.crusoe.declared import LABEL_DECLARED
from sparewheel.kube import answering
from sparewheel.kube.port import UnavailableError
from tests.components.conftest import KUBECONFIG
from tests.support.crusoe_thread import cloud_in_thread
from tests.support.crusoe_yard import CLUSTER, CREDENTIALS, H100, PROJECT

TAINT = {"key": "sparewheel.dev/spare", "effect": "NoSchedule"}


class Hurried(SystemClock):
    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 100)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Cloud, str]]:
    """The providers bring a loop of their own, so the cloud serves from a thread."""
    monkeypatch.setattr(sparewheel.clock, "SystemClock", Hurried)
    with cloud_in_thread() as served:
        yield served


def access(url: str = "https://192.0.2.1/v1") -> dict[str, Any]:
    key = {"keyId": CREDENTIALS.access_key_id, "secretKey": CREDENTIALS.secret_key}
    return {"__provider": "pickled", "url": url, "projectId": PROJECT, **key, "clusterId": CLUSTER}


def pool(url: str = "https://192.0.2.1/v1", **changes: Any) -> dict[str, Any]:
    """As the engine hands it over: every number is a float."""
    declared = {"name": "gpu", "productName": H100, "count": 2.0, "nodeLabels": {"team": "a"}, "nodeTaints": [TAINT]}
    return {**access(url), **declared, "settings": {}, **changes}


def healer(url: str = "https://192.0.2.1/v1", **changes: Any) -> dict[str, Any]:
    return {**access(url), "healer": "sparewheel", "fallbackToProjectReservations": None, **changes}


def outs_of(result: CreateResult | ReadResult) -> dict[str, Any]:
    assert result.outs is not None
    return dict(result.outs)


def test_what_is_missing_or_for_life_is_named() -> None:
    provider = CrusoeNodePoolProvider()
    assert provider.check({}, pool()).failures == []
    assert provider.check({}, pool(clusterId=UNKNOWN)).failures == []
    assert provider.check(pool(), pool(clusterId=UNKNOWN)).failures == []
    assert [failure.property for failure in provider.check({}, pool(count=None)).failures] == ["count"]
    (failure,) = provider.check(pool(), pool(productName="b200.8x")).failures
    assert failure.property == "productName"
    assert failure.reason.endswith(f"can't change from {H100} to b200.8x; declare another resource")
    (failure,) = CrusoeHealerProvider().check({}, healer(healer="both")).failures
    assert failure.reason == "healer is 'both'; it is one of ('sparewheel', 'crusoe')"


def test_diff_looks_at_what_is_declared_only() -> None:
    provider = CrusoeNodePoolProvider()
    assert provider.diff("id", pool(count=2), pool(count=2.0, __provider="other")).changes is False
    assert provider.diff("id", pool(), pool(count=3.0)).changes is True


def test_a_node_pool_from_first_to_last(cloud: tuple[Cloud, str]) -> None:
    played, url = cloud
    provider = CrusoeNodePoolProvider()
    made = provider.create(pool(url))
    (there,) = played.pools.values()
    pool_id, _, incarnation = made.id.partition("@")
    assert (pool_id, there.count, there.labels) == (there.id, 2, {"team": "a", LABEL_DECLARED: incarnation})
    assert repr(outs_of(made)["count"]) == "2"
    assert outs_of(made) == provider.seen(pool(url))

    there.count = 3  # healing took one more
    read = provider.read(made.id, outs_of(made))
    assert provider.diff(made.id, outs_of(read), pool(url)).changes is False

    there.labels = {LABEL_DECLARED: incarnation}  # somebody else changed these
    read = provider.read(made.id, outs_of(made))
    assert provider.diff(made.id, outs_of(read), pool(url)).changes is True
    provider.update(made.id, outs_of(read), pool(url))
    assert (there.labels["team"], there.count) == ("a", 3)

    again = provider.create(pool(url))  # as a forced replacement does it, before it deletes the first
    provider.delete(made.id, outs_of(made))
    assert again.id.partition("@")[0] in played.pools
    provider.delete(again.id, outs_of(again))
    assert played.pools == {}
    assert provider.read(made.id, outs_of(made)).id == ""


def test_a_key_that_is_refused_is_no_pool_that_is_gone(cloud: tuple[Cloud, str]) -> None:
    provider = CrusoeNodePoolProvider()
    with pytest.raises(NotDone, match="401") as caught:
        provider.read("some-id", {**provider.seen(pool(cloud[1])), "secretKey": "AAAAAAAAAAAAAAAAAAAAAA"})
    assert "AAAAAAAA" not in str(caught.value)


def test_the_healer_is_one_and_drift_shows(cloud: tuple[Cloud, str]) -> None:
    played, url = cloud
    provider, row = CrusoeHealerProvider(), played.auto_clusters[CLUSTER]["remediation_configs"][0]
    made = provider.create(healer(url))
    assert (made.id, row["effective_action"]) == (CLUSTER, "OFF")
    read = provider.read(made.id, outs_of(made))
    assert provider.diff(made.id, outs_of(read), healer(url)).changes is False

    row["effective_action"] = "REPLACE_NODE"  # switched on in the console
    read = provider.read(made.id, outs_of(made))
    assert provider.diff(made.id, outs_of(read), healer(url)).changes is True
    provider.update(made.id, outs_of(read), healer(url))
    assert row["effective_action"] == "OFF"

    provider.delete(made.id, outs_of(made))
    assert row["effective_action"] == "REPLACE_NODE"


CLUSTER_PROPS: dict[str, Any] = {
    "name": "train",
    "location": "us-east1-a",
    "version": "1.33.4-cmk.20",
    "settings": {},
    "adopt": False,
}


def test_a_cluster_is_for_life(cloud: tuple[Cloud, str]) -> None:
    played, url = cloud
    provider = CrusoeClusterProvider()
    news = {**access(url), **CLUSTER_PROPS}
    made = provider.create(news)
    read = provider.read(made.id, outs_of(made))
    assert provider.diff(made.id, outs_of(read), news).changes is False
    assert provider.diff(made.id, outs_of(read), {**news, "secretKey": "another"}).changes is True
    (failure,) = provider.check(outs_of(made), {**news, "version": "1.34.0-cmk.1"}).failures
    assert "declare another resource" in failure.reason
    with pytest.raises(NotDone, match="not deleted while adopt is set"):
        provider.delete(made.id, {**outs_of(made), "adopt": True})
    assert made.id in played.clusters
    provider.delete(made.id, outs_of(made))
    assert provider.read(made.id, outs_of(made)).id == ""


class Booting:
    """An API server that answers at the second look."""

    looks = 0

    def client(self, *_: object, **__: object) -> Booting:
        return self

    async def get(self, *_: object) -> dict[str, Any]:
        self.looks += 1
        if self.looks < 2:
            raise UnavailableError("get namespace kube-system: no answer")
        return {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def test_a_kubeconfig_is_waited_for_and_kept(cloud: tuple[Cloud, str], monkeypatch: pytest.MonkeyPatch) -> None:
    played, url = cloud
    played.play.kubeconfig = KUBECONFIG
    booting = Booting()
    monkeypatch.setattr(answering, "KubeClient", booting.client)
    cluster = CrusoeClusterProvider().create({**access(url), **CLUSTER_PROPS}).id
    provider = CrusoeKubeconfigProvider()
    news = {**access(url), "clusterId": cluster, "kubeconfig": None}
    made = provider.create(news)
    assert (booting.looks, outs_of(made)["kubeconfig"]) == (2, KUBECONFIG)
    assert provider.diff(made.id, outs_of(made), news).changes is False
    renewed = provider.update(made.id, outs_of(made), {**news, "secretKey": "another"})
    assert renewed.outs is not None
    assert renewed.outs["kubeconfig"] == KUBECONFIG


def test_an_api_server_that_never_answers_is_named(cloud: tuple[Cloud, str], monkeypatch: pytest.MonkeyPatch) -> None:
    played, url = cloud
    played.play.kubeconfig = KUBECONFIG
    monkeypatch.setattr(answering, "KubeClient", Booting().client)
    monkeypatch.setattr(crusoe_cluster, "BOOT_SECONDS", -1.0)
    cluster = CrusoeClusterProvider().create({**access(url), **CLUSTER_PROPS}).id
    with pytest.raises(NotDone, match="run it again, it goes on; last: get namespace kube-system"):
        CrusoeKubeconfigProvider().create({**access(url), "clusterId": cluster, "kubeconfig": None})
    assert cluster in played.clusters, "the cluster itself is not lost"
