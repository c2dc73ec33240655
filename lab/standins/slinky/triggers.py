"""Which Slinky objects must be looked at when something in the cluster changes: pure."""

from __future__ import annotations

from collections.abc import Iterator

from lab.standins.slinky import names
from lab.standins.slinky.builders import controller as controllers
from lab.standins.slinky.builders.common import jwt_ref
from lab.standins.slinky.nodeset import pods
from lab.standins.slinky.objects import Obj, annotations_of, dig, labels_of, name_of, namespace_of
from lab.standins.slinky.queue import Key
from lab.standins.slinky.store import Store

_NODE_NOTES = (names.NODE_CORDON_REASON, names.TOPOLOGY_SPEC)
_OF_CONTROLLER = ("RestApi", "NodeSet", "LoginSet")


def keys(store: Store, kind: str, before: Obj | None, after: Obj | None) -> set[Key]:
    """Objects to look at after ``kind`` changed from ``before`` (None: new) to ``after`` (None: gone)."""
    obj = after or before
    if obj is None:
        return set()
    out: set[Key] = set()
    if kind in names.KINDS:
        out.update(_of_slinky(store, kind, obj, only_status=_only_status(before, after)))
    elif kind == "Node":
        out.update(_of_node(store, before, after))
    elif kind == "Pod":
        out.update(_of_pod(obj))
    elif kind in {"Secret", "ConfigMap"}:
        out.update(_users(store, kind, obj))
    out.update(_owners(obj))
    return out


def _only_status(before: Obj | None, after: Obj | None) -> bool:
    generations = [dig(one, "metadata", "generation") for one in (before, after)]
    return before is not None and after is not None and generations[0] == generations[1]


def _key(kind: str, obj: Obj) -> Key:
    return Key(kind, namespace_of(obj), name_of(obj))


def _owners(obj: Obj) -> Iterator[Key]:
    references: list[Obj] = dig(obj, "metadata", "ownerReferences", default=[])
    for one in references:
        if one.get("apiVersion") == names.API_VERSION and one.get("controller"):
            yield Key(one["kind"], namespace_of(obj), one["name"])


def _of_slinky(store: Store, kind: str, obj: Obj, *, only_status: bool) -> Iterator[Key]:
    if only_status:
        return
    yield _key(kind, obj)
    namespace = namespace_of(obj)
    if kind in {"NodeSet", "RestApi"}:
        yield Key("Controller", namespace, dig(obj, "spec", "controllerRef", "name", default=""))
    elif kind == "Accounting":
        for controller in store.all("Controller", namespace):
            if dig(controller, "spec", "accountingRef", "name") == name_of(obj):
                yield _key("Controller", controller)
    if kind in {"Controller", "RestApi"}:
        cluster = name_of(obj) if kind == "Controller" else dig(obj, "spec", "controllerRef", "name")
        for child in _OF_CONTROLLER:
            for one in store.all(child, namespace):
                if dig(one, "spec", "controllerRef", "name") == cluster:
                    yield _key(child, one)


def _of_node(store: Store, before: Obj | None, after: Obj | None) -> Iterator[Key]:
    """NodeSets with a pod on a host that was cordoned, uncordoned, annotated, or has come or gone."""
    if before is not None and after is not None and _node_facts(before) == _node_facts(after):
        return
    name = name_of(after or before or {})
    for pod in store.all("Pod"):
        if pods.host(pod) == name and labels_of(pod).get(names.APP_NAME) == "slurmd":
            yield from _owners(pod)


def _node_facts(node: Obj) -> tuple[bool, list[str | None]]:
    notes = annotations_of(node)
    return bool(dig(node, "spec", "unschedulable", default=False)), [notes.get(one) for one in _NODE_NOTES]


def _of_pod(pod: Obj) -> Iterator[Key]:
    """A slurmctld pod concerns its Controller (it must be labelled active)."""
    if labels_of(pod).get(names.APP_NAME) == controllers.APP:
        instance = labels_of(pod).get(names.APP_INSTANCE, "")
        yield Key("Controller", namespace_of(pod), instance)


def _users(store: Store, kind: str, obj: Obj) -> Iterator[Key]:
    """Objects whose spec names this Secret or ConfigMap."""
    namespace, name = namespace_of(obj), name_of(obj)
    for one_kind in names.KINDS:
        for one in store.all(one_kind, namespace):
            if name in (_secrets(one) if kind == "Secret" else _config_maps(one_kind, one)):
                yield _key(one_kind, one)


def _secrets(obj: Obj) -> set[str]:
    spec: Obj = obj["spec"]
    refs: list[Obj | None] = [spec.get("slurmKeyRef"), spec.get("sssdConfRef"), dig(spec, "ssh", "sssdConfRef")]
    refs.append(dig(spec, "storageConfig", "passwordKeyRef"))
    if spec.get("jwtKeyRef") or spec.get("jwtHs256KeyRef"):
        refs.append(jwt_ref(spec))
    return {str(one.get("name")) for one in refs if one}


def _config_maps(kind: str, obj: Obj) -> set[str]:
    return set(controllers.extra_config_maps(obj)) if kind == "Controller" else set()
