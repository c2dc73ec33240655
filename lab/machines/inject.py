"""Letting a GPU fail: a kernel record in the host's log, and what the fault does to the job that uses the GPU."""

import signal
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lab.machines.cgroups import HostGroups
from lab.machines.inventory import Host
from lab.machines.kmsg import WARNING, append_record, xid_text
from lab.machines.power import Power, PowerError
from lab.paths import Paths
from lab.supervisor.identity import Identity, identify, send_signal
from sparewheel.agent.drill import keep_stopped


class Bite(StrEnum):
    """crash: the processes die and the device is gone; hang: they stop and ignore TERM; silent: nothing."""

    CRASH = "crash"
    HANG = "hang"
    SILENT = "silent"


@dataclass(frozen=True)
class JobProcess:
    """A process of a Slurm job on a host; `gpus` are the ones it uses."""

    identity: Identity
    name: str
    environment: dict[str, str]
    gpus: frozenset[int]

    @property
    def pid(self) -> int:
        """Pid as the machine sees it."""
        return self.identity.pid


@dataclass(frozen=True)
class Injection:
    """What was done: the kernel record, and the processes that were struck."""

    record: str
    victims: list[JobProcess]


def inject_xid(paths: Paths, host: Host, xid: int, gpu: int, bite: Bite) -> Injection:
    """Write the driver's record for GPU `gpu` of `host` and let it bite. PowerError when the host is off."""
    if not 0 <= gpu < host.gpus:
        raise ValueError(f"{host.name} has {host.gpus} GPUs; GPU {gpu} can't fail")
    if not Power(paths).is_on(host):
        raise PowerError(f"{host.name} is off and can't have a fault; 'power {host.name} on' boots it")
    victims = processes_on_gpu(paths, host, gpu) if bite is not Bite.SILENT else []
    who = (victims[0].pid, victims[0].name) if victims else (None, None)
    record = append_record(paths.disk(host.name) / "var/log/kmsg", WARNING, xid_text(xid, gpu, *who))
    if bite is Bite.CRASH:
        remove_device(paths, host, gpu)
    number = signal.SIGKILL if bite is Bite.CRASH else signal.SIGSTOP
    struck = [victim for victim in victims if send_signal(victim.identity, number)]
    if bite is Bite.HANG and struck:
        keep_stopped([victim.pid for victim in struck])
    return Injection(record, struck)


def processes_on_gpu(paths: Paths, host: Host, gpu: int) -> list[JobProcess]:
    """The job's processes that hold that GPU: its ranks, or the batch script where there are none."""
    jobs = [p for p in map(read_process, HostGroups(paths.group).processes(host.name)) if p is not None]
    ranks = [p for p in jobs if "LOCAL_RANK" in p.environment]
    tasks = [p for p in jobs if "SLURM_STEP_ID" in p.environment]
    users = ranks or tasks or jobs
    return [p for p in users if gpu in p.gpus]


def read_process(pid: int) -> JobProcess | None:
    """A process with SLURM_JOB_ID in its environment and the GPUs it uses; None for any other."""
    identity = identify(pid)
    if identity is None:
        return None
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    pairs = (item.decode(errors="replace").partition("=") for item in raw.split(b"\0") if b"=" in item)
    environment = {key: value for key, _, value in pairs}
    if "SLURM_JOB_ID" not in environment or name.startswith(("slurmstepd", "srun")):
        return None
    return JobProcess(identity, name, environment, gpus_of(environment))


def gpus_of(environment: dict[str, str]) -> frozenset[int]:
    """GPUs of a process: what Slurm gave the step, shared out among the ranks of the host in turn."""
    text = next(
        (environment[k] for k in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES") if environment.get(k)),
        "",
    )
    given = [int(item) for item in text.split(",") if item.strip().isdigit()]
    world = int(environment.get("LOCAL_WORLD_SIZE", "1"))
    rank = int(environment.get("LOCAL_RANK", "0"))
    return frozenset(given[rank::world])


def remove_device(paths: Paths, host: Host, gpu: int) -> None:
    """Take the device file away, as when the GPU has fallen off the bus."""
    for pid in HostGroups(paths.group).processes(host.name):
        device = Path(f"/proc/{pid}/root/dev/nvidia{gpu}")
        if is_process_one(pid):
            device.unlink(missing_ok=True)
            return


def is_process_one(pid: int) -> bool:
    """Whether this is process 1 of a host (one PID namespace below the machine's)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    line = next((x for x in status.splitlines() if x.startswith("NSpid:")), "")
    return line.split()[2:] == ["1"] and Path(f"/proc/{pid}/root/run/machine").exists()
