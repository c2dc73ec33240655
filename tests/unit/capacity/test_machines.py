"""Backend machines: what can go wrong over SSH, told apart and with the machine's name."""

from __future__ import annotations

import logging
import traceback
from collections.abc import AsyncIterator

import pytest

from sparewheel.capacity.backends.command_words import program
from sparewheel.capacity.backends.machines import CommandFailedError, MachinesProvider
from sparewheel.capacity.port import CapacityError, JoinRequest, Proof, Taint, UnreachableError
from tests.support.ssh_yard import SshYard, new_key, ssh_yard


@pytest.fixture
async def yard() -> AsyncIterator[SshYard]:
    async with ssh_yard("gpu-1") as found:
        yield found


def provider_of(yard: SshYard, *, power: bool = True, timeout_seconds: float = 10.0) -> MachinesProvider:
    backend = yard.backend(power=power, timeout_seconds=timeout_seconds)
    return MachinesProvider(backend, yard.client_key, yard.client_key)


async def test_labels_and_taints_are_spelled_for_the_shell(yard: SshYard) -> None:
    labels = {"a/b": "c", "odd": "x y$(reboot)"}
    await provider_of(yard).join(JoinRequest("gpu-1", "gpu-1", labels, [Taint("k/t"), Taint("u", "NoExecute", "v")]))
    user, command = yard.commands[0]
    assert user == "gpu-1"
    assert command == (
        "host-join --node-name gpu-1 --label a/b=c --label 'odd=x y$(reboot)' "
        "--taint k/t=:NoSchedule --taint u=v:NoExecute"
    )
    assert yard.machines["gpu-1"].labels == labels


async def test_braces_of_the_shell_stay(yard: SshYard) -> None:
    provider = provider_of(yard)
    provider.backend.leave_command = "echo ${HOME} {host}"
    with pytest.raises(CommandFailedError):
        await provider.leave("gpu-1")
    assert yard.commands[0] == ("gpu-1", "echo ${HOME} gpu-1")


async def test_another_host_key_is_refused_before_the_command(yard: SshYard) -> None:
    provider = provider_of(yard)
    other = new_key().export_public_key().decode()
    provider.backend.machines[0].ssh.host_key = other
    with pytest.raises(CapacityError, match=r"machine gpu-1 .* another host key than the one listed"):
        await provider.leave("gpu-1")
    assert yard.commands == []


async def test_a_refused_key_is_said(yard: SshYard) -> None:
    other = new_key().export_private_key().decode()
    provider = MachinesProvider(yard.backend(), other, other)
    with pytest.raises(CapacityError, match=r"machine gpu-1 .* refuses the key") as caught:
        await provider.leave("gpu-1")
    assert not isinstance(caught.value, UnreachableError)


@pytest.mark.parametrize("key", ["", "no key at all"])
async def test_an_unusable_key_is_said(yard: SshYard, key: str) -> None:
    with pytest.raises(CapacityError, match="private key can't be used"):
        await MachinesProvider(yard.backend(), key).leave("gpu-1")


async def test_an_unusable_host_key_is_said(yard: SshYard) -> None:
    provider = provider_of(yard)
    provider.backend.machines[0].ssh.host_key = "ssh-ed25519 nonsense"
    with pytest.raises(CapacityError, match="hostKey is no OpenSSH public key"):
        await provider.leave("gpu-1")


async def test_a_machine_that_is_off_is_unreachable(yard: SshYard) -> None:
    provider = provider_of(yard)
    provider.backend.machines[0].ssh.port = 1
    with pytest.raises(UnreachableError, match=r"machine gpu-1 \(gpu-1@127\.0\.0\.1:1\) can't be reached"):
        await provider.leave("gpu-1")


async def test_a_command_that_hangs_is_ended_at_the_deadline(yard: SshYard) -> None:
    yard.hang = True
    with pytest.raises(UnreachableError, match=r"did not finish 'host-leave' within 1 s"):
        await provider_of(yard, timeout_seconds=1.0).leave("gpu-1")


async def test_a_failed_command_shows_its_last_words(yard: SshYard) -> None:
    yard.broken = "kubelet: no such file"
    with pytest.raises(CommandFailedError, match=r"'host-leave' failed with exit status 3: kubelet: no such file"):
        await provider_of(yard).leave("gpu-1")


@pytest.mark.parametrize(
    "command", ["host-join --token=CANARY-42 {node}", "TOKEN=CANARY-42 host-join {node}", "sh -c 'host-join CANARY-42'"]
)
@pytest.mark.parametrize("trouble", ["broken", "hang"])
async def test_a_token_in_a_command_is_in_no_error_and_no_log(
    yard: SshYard, command: str, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    yard.hang, yard.broken = trouble == "hang", "the token CANARY-42 for gpu-1 is refused"
    provider = provider_of(yard, timeout_seconds=1.0 if trouble == "hang" else 10.0)
    provider.backend.join_command = command
    with pytest.raises(CapacityError, match="gpu-1") as caught:
        await provider.join(JoinRequest("gpu-1", "gpu-1", {}, []))
    told = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert "CANARY" not in told
    if trouble == "broken":  # one that hangs may be given up before it began
        assert "CANARY-42" in yard.commands[0][1]
        assert "the token *** for gpu-1 is refused" in str(caught.value)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("host-leave", "'host-leave'"),
        ("  /opt/bin/join --token=x", "'/opt/bin/join'"),
        ("TOKEN=x join", "its command"),
        ("$(cat /key)", "its command"),
        ("", "its command"),
    ],
)
def test_a_command_is_named_by_its_program(command: str, named: str) -> None:
    assert program(command) == named


async def test_without_a_switch_nothing_is_proven(yard: SshYard) -> None:
    provider = provider_of(yard, power=False)
    assert await provider.prove_off("gpu-1", power_off=True) is Proof.UNKNOWN
    await provider.power_on("gpu-1")
    with pytest.raises(CapacityError, match=r"add backend\.power"):
        await provider.reboot("gpu-1")


async def test_an_unclear_word_is_no_proof(yard: SshYard) -> None:
    provider = provider_of(yard)
    assert provider.backend.power is not None
    provider.backend.power.ssh = yard.endpoint("gpu-1")  # the wrong machine: it knows no such command
    assert await provider.prove_off("gpu-1", power_off=False) is Proof.UNKNOWN
