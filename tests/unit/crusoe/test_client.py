"""The client against the played service, over HTTP on loopback; time is a clock that the test turns."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from lab.standins.crusoe.cloud import Play
from lab.standins.crusoe.trouble import Fault
from sparewheel.crusoe.client import CrusoeClient
from sparewheel.crusoe.errors import (
    CrusoeError,
    NoAnswerError,
    OperationForgottenError,
    OutOfStockError,
    RefusedError,
    UnfinishedError,
    UnknownOutcomeError,
)
from sparewheel.crusoe.signing import Credentials
from sparewheel.crusoe.transport import Transport
from sparewheel.crusoe.wire import Vm, shortfall
from tests.support.clocks import StillClock
from tests.support.crusoe_yard import CLUSTER, CREDENTIALS, H100, ORGANIZATION, RESERVATION, CrusoeYard, crusoe_yard


@pytest.fixture
async def yard() -> AsyncIterator[CrusoeYard]:
    async with crusoe_yard(Play(page_size=2)) as made:
        yield made


async def test_every_page_is_read(yard: CrusoeYard) -> None:
    pool = yard.pool(5)
    async with yard.client() as api:
        assert [vm.name for vm in await api.pool_vms(pool.id)] == [f"gpu-{n}" for n in range(1, 6)]
        assert {vm.id for vm in await api.vms(list(yard.cloud.vms))} == set(yard.cloud.vms)
    assert len(yard.asked(f"{pool.id}/vms")) == 3


async def test_a_vm_that_goes_between_two_pages_loses_no_other(yard: CrusoeYard) -> None:
    pool = yard.pool(5)
    first = min(yard.cloud.vms)
    yard.server.trouble.after("/vms", lambda: yard.cloud.vms.pop(first) and None)
    async with yard.client() as api:
        found = {vm.id for vm in await api.pool_vms(pool.id)}
    assert found >= set(yard.cloud.vms)


async def test_a_wrong_key_is_told_without_the_key(yard: CrusoeYard) -> None:
    pool = yard.pool(1)
    wrong = Credentials(CREDENTIALS.access_key_id, "AAAAAAAAAAAAAAAAAAAAAA")
    async with yard.client(credentials=wrong) as api:
        with pytest.raises(
            RefusedError, match=f"node pool {pool.id}: 401 bad_credential; check access_key_id"
        ) as caught:
            await api.pool(pool.id)
    assert wrong.secret_key not in str(caught.value)


async def test_what_the_service_says_is_cleaned_of_secrets(yard: CrusoeYard) -> None:
    yard.pool(1)
    said = f"rpc error: code = 7 desc = no {CREDENTIALS.secret_key}\nhere"
    yard.server.trouble.faults.append(Fault("GET", 400, message=said))
    async with yard.client() as api:
        with pytest.raises(RefusedError, match=r"400 no \*\*\* here;"):
            await api.pool("p")


async def test_each_try_is_signed_anew(yard: CrusoeYard) -> None:
    """The wait is longer than the service's clock window: an old signature would be refused."""
    yard.cloud.play.clock_window_seconds = 10
    pool = yard.pool(1)
    yard.server.trouble.faults.append(Fault(pool.id, 429, retry_after="30"))
    async with yard.client() as api:
        assert (await api.pool(pool.id)).id == pool.id
    assert yard.clock.seconds == 30


@pytest.mark.parametrize("status", [409, 429, 500, 502, 503, 504])
async def test_what_passes_is_tried_again(yard: CrusoeYard, status: int) -> None:
    pool = yard.pool(1)
    yard.server.trouble.faults.append(Fault(pool.id, status, times=2))
    async with yard.client() as api:
        assert (await api.pool(pool.id)).count == 1
    assert len(yard.asked(pool.id)) == 3
    assert yard.clock.seconds == 3  # 1 + 2


@pytest.mark.parametrize("status", [400, 403, 404, 501])
async def test_what_does_not_pass_is_not(yard: CrusoeYard, status: int) -> None:
    pool = yard.pool(1)
    yard.server.trouble.faults.append(Fault(pool.id, status))
    async with yard.client() as api:
        with pytest.raises(CrusoeError, match=f"{pool.id}.*{status}"):
            await api.pool(pool.id)
    assert len(yard.asked(pool.id)) == 1


async def test_retries_end_at_the_deadline(yard: CrusoeYard) -> None:
    pool = yard.pool(1)
    yard.server.trouble.faults.append(Fault(pool.id, 503, times=99))
    async with yard.client(call_seconds=20) as api:
        with pytest.raises(NoAnswerError, match="503 internal_error; nothing is known"):
            await api.pool(pool.id)
    assert yard.clock.seconds <= 20


async def test_a_wait_that_is_asked_for_beyond_the_deadline_is_not_begun(yard: CrusoeYard) -> None:
    pool = yard.pool(1)
    yard.server.trouble.faults.append(Fault(pool.id, 429, retry_after="3600", message="too_many_requests"))
    async with yard.client() as api:
        with pytest.raises(RefusedError, match="too_many_requests"):
            await api.pool(pool.id)
    assert yard.clock.seconds == 0


async def test_a_service_that_is_down_is_no_answer(yard: CrusoeYard) -> None:
    pool = yard.pool(1)
    yard.server.down = True
    async with yard.client(call_seconds=5) as api:
        with pytest.raises(NoAnswerError, match="nothing is known"):
            await api.vms([pool.id])


async def test_another_service_is_told_apart(yard: CrusoeYard) -> None:
    async with yard.client(url=yard.server.url.replace("/v1", "/elsewhere")) as api:
        with pytest.raises(CrusoeError, match="404"):
            await api.pool("x")


async def test_a_lost_answer_to_stop_is_asked_again_and_waits_out_the_first(yard: CrusoeYard) -> None:
    yard.pool(1)
    (vm,) = yard.cloud.vms.values()
    yard.server.trouble.faults.append(Fault(f"PATCH /v1/projects/{yard.cloud.project}/compute", 503, carried_out=True))
    async with yard.client() as api:
        (seen,) = await api.vms([vm.id])
        await api.stop_vm(seen)  # 409 while the first runs, then 400, since it is off
        (seen,) = await api.vms([vm.id])
    assert seen.status == "STOPPED"


async def test_a_reset_whose_answer_is_lost_is_not_sent_again(yard: CrusoeYard) -> None:
    yard.pool(1)
    (vm,) = yard.cloud.vms.values()
    yard.server.trouble.faults.append(Fault("PATCH", cut=True, carried_out=True))
    async with yard.client() as api:
        (seen,) = await api.vms([vm.id])
        with pytest.raises(UnknownOutcomeError, match="RESET of VM gpu-1: the answer was lost"):
            await api.reset_vm(seen)
    assert len(yard.asked("PATCH")) == 1


async def test_a_reset_that_waits_for_another_operation_is_sent_again(yard: CrusoeYard) -> None:
    yard.pool(1)
    (vm,) = yard.cloud.vms.values()
    yard.cloud.begin(vm.id, dict)
    async with yard.client() as api:
        (seen,) = await api.vms([vm.id])
        await api.reset_vm(seen)
    assert vm.boots == 2


async def test_a_vm_is_deleted_once_even_if_the_answer_is_lost(yard: CrusoeYard) -> None:
    pool = yard.pool(2)
    vm = yard.cloud.members(pool)[0]
    yard.server.trouble.faults.append(Fault("DELETE", cut=True, carried_out=True))
    async with yard.client() as api:
        (seen,) = await api.vms([vm.id])
        await api.delete_vm(seen)
        await api.delete_vm(seen)
    assert vm.id not in yard.cloud.vms


async def test_too_few_vms_is_a_success_that_says_so(yard: CrusoeYard) -> None:
    pool = yard.pool(2, stock=1)
    async with yard.client() as api:
        operation = await api.set_pool_count(await api.pool(pool.id), 4)
        now = await api.pool(pool.id)
    assert operation is not None
    assert operation.status == "SUCCEEDED"
    assert "Out of Stock" in shortfall(operation)
    assert (now.count, len(now.instance_ids or [])) == (4, 3)


async def test_a_start_without_stock_is_out_of_stock(yard: CrusoeYard) -> None:
    yard.pool(1)
    async with yard.client() as api:
        (vm,) = await api.vms(list(yard.cloud.vms))
        await api.stop_vm(vm)
        yard.cloud.stock[H100] = 0  # somebody else took the host
        with pytest.raises(OutOfStockError, match=r"START of VM gpu-1: Crusoe is out of stock \(Out of Stock"):
            await api.start_vm(vm)


async def test_an_operation_that_hangs_ends_at_the_deadline(yard: CrusoeYard) -> None:
    yard.cloud.play.operation_seconds = 1e9
    yard.pool(1)
    async with yard.client(operation_seconds=60) as api:
        (vm,) = await api.vms(list(yard.cloud.vms))
        with pytest.raises(UnfinishedError, match=r"STOP of VM gpu-1: operation .* has not ended after 60 s"):
            await api.stop_vm(vm)
    assert 60 <= yard.clock.seconds < 70


async def test_polls_that_fail_do_not_end_the_operation(yard: CrusoeYard) -> None:
    yard.cloud.play.operation_seconds = 100
    yard.pool(1)
    yard.server.trouble.faults.append(Fault("/operations/", 500, times=8))
    async with yard.client(call_seconds=5) as api:
        (vm,) = await api.vms(list(yard.cloud.vms))
        await api.stop_vm(vm)
        (vm,) = await api.vms([vm.id])
    assert vm.status == "STOPPED"


async def test_an_operation_that_expired_is_told_apart_from_a_failure(yard: CrusoeYard) -> None:
    yard.cloud.play.operation_kept_seconds = -1
    yard.pool(1)
    async with yard.client() as api:
        (vm,) = await api.vms(list(yard.cloud.vms))
        await api.stop_vm(vm)  # its operation can't be read any more, but the VM is off
        with pytest.raises(OperationForgottenError, match="look at the object itself"):
            await api.reset_vm(await started(yard, api))


async def started(yard: CrusoeYard, api: CrusoeClient) -> Vm:
    yard.cloud.start(next(iter(yard.cloud.vms.values())))
    (vm,) = await api.vms(list(yard.cloud.vms))
    return vm


async def test_auto_clusters_is_none_only_where_the_api_says_so(yard: CrusoeYard) -> None:
    async with yard.client() as api:
        assert await api.auto_clusters(CLUSTER) is None
        yard.auto("replace_node", fallback=True)
        found = await api.auto_clusters(CLUSTER)
        assert found is not None
        assert (found.acting, found.fallback_to_project_reservations) == (["XID_79"], True)
        yard.server.trouble.faults.append(Fault("autoclusters", 403))
        with pytest.raises(RefusedError, match="403"):
            await api.auto_clusters(CLUSTER)


@pytest.mark.parametrize("action", ["OFF", "off", "detect_only", "DETECT_ONLY"])
async def test_auto_clusters_that_changes_nothing_does_not_act(yard: CrusoeYard, action: str) -> None:
    yard.auto(action)
    async with yard.client() as api:
        found = await api.auto_clusters(CLUSTER)
    assert found is not None
    assert found.acting == []


async def test_a_reservation_says_what_is_free(yard: CrusoeYard) -> None:
    yard.cloud.reservations[RESERVATION] = {
        "organization": ORGANIZATION, "id": RESERVATION, "quantity": 4, "used_quantity": 3,
    }  # fmt: skip
    async with yard.client() as api:
        assert (await api.reservation(ORGANIZATION, RESERVATION)).free == 1
        with pytest.raises(CrusoeError, match="reservation other: 403"):
            await api.reservation(ORGANIZATION, "other")


@pytest.mark.parametrize("answer", [b"", b"{}", b'{"status": "ok"}'])
async def test_what_is_no_list_is_never_an_empty_one(answer: bytes) -> None:
    """Else every host would have left the inventory, and one in quarantine would come back as a spare."""
    clock = StillClock()
    http = httpx.MockTransport(lambda _: httpx.Response(200, content=answer))
    async with CrusoeClient(Transport("http://crusoe.test", CREDENTIALS, clock, http=http), "p", clock) as api:
        with pytest.raises(CrusoeError, match="no list"):
            await api.pool_vms("pool")


@pytest.mark.parametrize("field", ["cluster_id", "count"])
async def test_a_pool_that_lacks_what_decides_is_an_error(field: str) -> None:
    """Without its cluster nobody could be asked who heals there; a count of none would shrink it."""
    clock, pool = StillClock(), {"id": "pool", "cluster_id": "c", "count": 2}
    del pool[field]
    http = httpx.MockTransport(lambda _: httpx.Response(200, json=pool))
    async with CrusoeClient(Transport("http://crusoe.test", CREDENTIALS, clock, http=http), "p", clock) as api:
        with pytest.raises(CrusoeError, match=rf"node pool pool: .*{field}"):
            await api.pool("pool")


async def test_a_list_of_none_is_empty() -> None:
    clock = StillClock()
    http = httpx.MockTransport(lambda _: httpx.Response(200, content=b'{"items": null}'))
    async with CrusoeClient(Transport("http://crusoe.test", CREDENTIALS, clock, http=http), "p", clock) as api:
        assert await api.pool_vms("pool") == []
