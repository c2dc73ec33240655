"""The paths of Crusoe's API that are played: what each reads, begins and answers."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from lab.standins.crusoe.cloud import Cloud, Json, Pool, Vm

AT_ONCE = ("RESERVE", "UNRESERVE")


@dataclass(slots=True)
class Request:
    method: str
    path: str
    """Without the API's version."""
    query: dict[str, str]
    body: Json = field(default_factory=dict[str, Any])


class Refusal(Exception):  # noqa: N818 - an answer, not a fault of ours
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Handler = Callable[..., Json]


class Routes:
    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        project = f"/projects/{cloud.project}"
        kubernetes = f"{project}/kubernetes"
        vms, pools, clusters = f"{project}/compute/vms/instances", f"{kubernetes}/nodepools", f"{kubernetes}/clusters"
        one = r"/([^/]+)"
        self.table: list[tuple[str, str, Handler]] = [
            ("GET", vms, self.list_vms),
            ("GET", f"{vms}/operations{one}", self.operation),
            ("GET", f"{pools}/operations{one}", self.operation),
            ("GET", f"{clusters}/operations{one}", self.operation),
            ("GET", f"{vms}{one}", self.get_vm),
            ("PATCH", f"{vms}{one}", self.patch_vm),
            ("DELETE", f"{vms}{one}", self.delete_vm),
            ("GET", pools, self.list_pools),
            ("POST", pools, self.make_pool),
            ("GET", f"{pools}{one}", self.get_pool),
            ("DELETE", f"{pools}{one}", self.delete_pool),
            ("PATCH", f"{pools}{one}", self.patch_pool),
            ("GET", f"{pools}{one}/vms", self.pool_vms),
            ("GET", clusters, self.list_clusters),
            ("POST", clusters, self.make_cluster),
            ("GET", f"{clusters}{one}", self.get_cluster),
            ("DELETE", f"{clusters}{one}", self.delete_cluster),
            ("POST", f"{clusters}{one}/get-credentials", self.credentials),
            ("GET", f"{clusters}{one}/autoclusters/config", self.get_auto_clusters),
            ("PATCH", f"{clusters}{one}/autoclusters/config", self.patch_auto_clusters),
            ("POST", f"{clusters}{one}/autoclusters/vms{one}/remediate", self.remediate),
            ("GET", f"{kubernetes}/autocluster-operations", self.remediations),
            ("GET", f"{kubernetes}/autocluster-operations{one}", self.operation),
            ("GET", f"/organizations{one}/reservations{one}", self.reservation),
            ("GET", "/users/identities", self.identity),
        ]

    def answer(self, request: Request) -> Json:
        self.cloud.settle()
        allowed = False
        for method, pattern, handler in self.table:
            found = re.fullmatch(pattern, request.path)
            if found is not None and method == request.method:
                return handler(request, *found.groups())
            allowed = allowed or found is not None
        raise Refusal(400 if allowed else 404, "bad_request" if allowed else "not_found")

    # ------------------------------------------------------------------ VMs

    def vm(self, vm_id: str) -> Vm:
        found = self.cloud.vms.get(vm_id)
        if found is None:
            raise Refusal(self.cloud.play.gone_status, "unauthorized")
        return found

    def list_vms(self, request: Request) -> Json:
        wanted: dict[str, set[str]] = {
            key: set(request.query[key].split(","))
            for key in ("ids", "names", "types", "states")
            if key in request.query
        }
        field_of = {"ids": "id", "names": "name", "types": "type", "states": "state"}
        found = [
            vm for vm in self.cloud.vms.values() if all(getattr(vm, field_of[key]) in of for key, of in wanted.items())
        ]
        return self.page(request, found, "next_page_token")

    def get_vm(self, _: Request, vm_id: str) -> Json:
        return self.vm(vm_id).wire(self.cloud.project)

    def patch_vm(self, request: Request, vm_id: str) -> Json:
        vm, cloud, action = self.vm(vm_id), self.cloud, str(request.body.get("action", "")).upper()
        if action in AT_ONCE:
            return {}
        effects = {"START": cloud.start, "STOP": cloud.stop, "RESET": cloud.reset}
        needs = {"START": "STATE_STOPPED", "STOP": "STATE_RUNNING", "RESET": "STATE_RUNNING"}
        if action not in effects or vm.state != needs[action]:
            raise Refusal(400, f"bad_request: {action or 'no action'} of a VM in {vm.state}")
        return self.begin(vm_id, lambda: effects[action](vm))

    def delete_vm(self, _: Request, vm_id: str) -> Json:
        vm = self.vm(vm_id)
        return self.begin(vm_id, lambda: self.cloud.delete(vm))

    # ------------------------------------------------------------------ node pools

    def pool(self, pool_id: str) -> Pool:
        found = self.cloud.pools.get(pool_id)
        if found is None:
            raise Refusal(404, "not_found")
        return found

    def pool_wire(self, pool: Pool) -> Json:
        members = [vm.id for vm in self.cloud.members(pool)]
        self.cloud.random.shuffle(members)
        return {
            "id": pool.id, "name": pool.name, "project_id": self.cloud.project, "cluster_id": pool.cluster,
            "count": pool.count, "instance_ids": members, "state": pool.state, "type": pool.type, "image_id": "1",
            "subnet_id": "", "node_labels": pool.labels, "node_taints": pool.taints, "reservation_id": "",
            "ephemeral_storage_for_containerd": False, "created_at": "", "updated_at": pool.updated_at,
        }  # fmt: skip

    def list_pools(self, request: Request) -> Json:
        cluster = request.query.get("cluster_id")
        found = [pool for pool in self.cloud.pools.values() if cluster in (None, pool.cluster)]
        return {"items": [self.pool_wire(pool) for pool in found]}

    def get_pool(self, _: Request, pool_id: str) -> Json:
        return self.pool_wire(self.pool(pool_id))

    def make_pool(self, request: Request) -> Json:
        """It is listed at once; its VMs come with the operation's end."""
        body = request.body
        if not all(body.get(key) not in (None, "") for key in ("name", "product_name", "count", "cluster_id")):
            raise Refusal(400, "bad_request: name, product_name, count and cluster_id are required")
        made = self.cloud.add_pool(
            body["name"],
            body["cluster_id"],
            body["product_name"],
            0,
            labels=body.get("node_labels") or {},
            taints=body.get("node_taints") or [],
        )
        stale = self.pool_wire(made)
        return self.begin(made.id, lambda: self.cloud.resize(made, int(body["count"]), stale))

    def delete_pool(self, _: Request, pool_id: str) -> Json:
        pool = self.pool(pool_id)
        return self.begin(pool_id, lambda: self.cloud.remove(pool))

    def pool_vms(self, request: Request, pool_id: str) -> Json:
        return self.page(request, self.cloud.members(self.pool(pool_id)), "next_token")

    def patch_pool(self, request: Request, pool_id: str) -> Json:
        pool, body = self.pool(pool_id), request.body
        if body.get("action", "UPDATE") in AT_ONCE:
            return {}
        stale = self.pool_wire(pool)
        if body.get("node_taints") is not None:
            pool.taints = body["node_taints"]
        if body.get("node_labels"):
            pool.labels = body["node_labels"]
        count = int(body.get("count", pool.count))
        return self.begin(pool_id, lambda: self.cloud.resize(pool, count, stale))

    # ------------------------------------------------------------------ clusters

    def get_cluster(self, _: Request, cluster_id: str) -> Json:
        found = self.cloud.clusters.get(cluster_id)
        if found is None:
            raise Refusal(404, "not_found")
        pools = [pool.id for pool in self.cloud.pools.values() if pool.cluster == cluster_id]
        return {**found, "node_pools": pools}

    def list_clusters(self, request: Request) -> Json:
        name = request.query.get("cluster_name")
        return {"items": [one for one in self.cloud.clusters.values() if name in (None, one["name"])]}

    def make_cluster(self, request: Request) -> Json:
        body, cluster_id = request.body, self.cloud.new_id()
        if not all(body.get(key) for key in ("name", "location", "version")):
            raise Refusal(400, "bad_request: name, location and version are required")
        made = {"id": cluster_id, "state": "STATE_CREATING", **body}
        self.cloud.clusters[cluster_id] = made

        def runs() -> Json:
            made["state"] = "STATE_RUNNING"
            return made

        return self.begin(cluster_id, runs)

    def delete_cluster(self, request: Request, cluster_id: str) -> Json:
        self.get_cluster(request, cluster_id)
        return self.begin(cluster_id, lambda: self.cloud.clusters.pop(cluster_id))

    def credentials(self, request: Request, cluster_id: str) -> Json:
        name = self.get_cluster(request, cluster_id)["name"]
        parts = {"cluster_ca_certificate": "CA", "user_client_certificate": "CERT", "user_client_key": "KEY"}
        if self.cloud.play.kubeconfig:
            parts["kube_config"] = self.cloud.play.kubeconfig
        return {"cluster_name": name, "cluster_address": f"{name}.example:443", "user_name": "admin", **parts}

    # ------------------------------------------------------------------ AutoClusters

    def auto(self, cluster: str) -> Json:
        found = self.cloud.auto_clusters.get(cluster)
        if found is None:
            raise Refusal(404, "not_found")
        return found

    def get_auto_clusters(self, _: Request, cluster: str) -> Json:
        return self.auto(cluster)

    def patch_auto_clusters(self, request: Request, cluster: str) -> Json:
        found, body = self.auto(cluster), request.body
        rows = {row["issue_name"]: row for row in found["remediation_configs"]}
        overrides: list[dict[str, str]] = body.get("set_remediation_overrides") or []
        changes = {row["issue_name"]: row["action"] for row in overrides}
        removed: list[str] = body.get("remove_remediation_overrides") or []
        changes |= dict.fromkeys(removed, "")
        for name, action in changes.items():
            if name not in rows:
                raise Refusal(400, f"bad_request: no issue {name}")
            rows[name]["user_override"] = action
            rows[name]["effective_action"] = action or rows[name]["default_action"]
        if body.get("fallback_to_project_reservations") is not None:
            found["fallback_to_project_reservations"] = body["fallback_to_project_reservations"]
        return found

    def remediate(self, _: Request, cluster: str, vm_id: str) -> Json:
        """What stands in metadata and result of the real one is not published: these names are invented."""
        self.auto(cluster)
        vm = self.cloud.vms.get(vm_id)
        if vm is None:
            raise Refusal(404, "not_found")
        return self.begin(vm_id, lambda: self.cloud.delete(vm), "REPLACE_NODE", vm_id=vm_id, cluster_id=cluster)

    def remediations(self, request: Request) -> Json:
        state = request.query.get("state", "").upper()
        cluster = request.query.get("cluster_id")
        return {
            "items": [
                one.wire()
                for one in self.cloud.operations.values()
                if one.kind and state in ("", one.state) and cluster in (None, one.metadata.get("cluster_id"))
            ]
        }

    # ------------------------------------------------------------------ the rest

    def reservation(self, _: Request, organization: str, reservation_id: str) -> Json:
        found = self.cloud.reservations.get(reservation_id)
        if found is None or found["organization"] != organization:
            raise Refusal(403, "unauthorized")
        return {"items": [{key: value for key, value in found.items() if key != "organization"}]}

    def identity(self, _: Request) -> Json:
        return {"identity": {"id": "me"}}

    def operation(self, _: Request, operation_id: str) -> Json:
        found = self.cloud.operations.get(operation_id)
        if found is None:
            raise Refusal(403, "unauthorized")
        if self.cloud.play.forgets_what_was_read and found.ended:
            del self.cloud.operations[operation_id]
        return found.wire()

    def begin(self, resource: str, effect: Callable[[], Json], kind: str = "", **metadata: Any) -> Json:
        if self.cloud.busy(resource):
            raise Refusal(409, "another operation is in progress on this resource")
        return {"operation": self.cloud.begin(resource, effect, kind, **metadata).wire()}

    def page(self, request: Request, vms: Iterable[Vm], token_name: str) -> Json:
        """Tokens are opaque, a page's own order is not stable, and a page may be shorter than was asked for."""
        ordered = sorted(vms, key=lambda vm: vm.id)
        token = request.query.get("next_token", "")
        try:
            after = base64.b64decode(token, validate=True).decode()
        except ValueError:
            raise Refusal(400, "bad_request: next_token") from None
        size = min(self.cloud.play.page_size, int(request.query.get("limit") or self.cloud.play.page_size))
        rest = [vm for vm in ordered if vm.id > after]
        shown = rest[:size]
        following = base64.b64encode(shown[-1].id.encode()).decode() if len(rest) > size else ""
        self.cloud.random.shuffle(shown)
        return {"items": [vm.wire(self.cloud.project) for vm in shown], token_name: following}
