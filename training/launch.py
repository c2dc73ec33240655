"""One per node, started by srun: torchrun with the three things it lacks for a job that outlives its nodes.

1. A meeting point worked out for this attempt (the one of the attempt before may be the node that died).
2. Time to save: torchrun kills its ranks 30 s after it has sent SIGTERM. Its `--shutdown-timeout` (from torch 2.12)
   doesn't reach the neighbours of a failed rank. Here every such wait is as long as the grace.
3. Patience after a peer's death: a job that ends by itself has failed (or is held) and loses its nodes to the next in
   the queue, so this waits for the platform's SIGTERM first, which requeues the job with its nodes kept.

usage: srun --ntasks-per-node=1 python3 launch.py --nproc-per-node N [options] SCRIPT [its arguments]
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
from typing import Any

from resumable.attempt import Attempt
from resumable.progress import say
from resumable.ranks import RankKeeper
from resumable.rendezvous import Meeting, RendezvousError, ensure_free, meeting, own_address
from resumable.signals import STOPPED

SIOCGIFADDR = 0x8915
NODE_ADDRESS_SECONDS = 10


def main() -> int:
    options, script = parse(sys.argv[1:])
    keeper = RankKeeper(options.grace_seconds)
    keeper.install()
    attempt = Attempt.from_environment(os.environ)
    try:
        meet = meeting(attempt, os.environ, node_address=slurm_node_address)
        port = options.port or meet.port
        if meet.is_host:
            ensure_free(port)
        address = own_address(meet.host, port)
    except (RendezvousError, OSError) as error:
        say(f"launch: {error}")
        return 1
    name_interface(address)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a lost peer is one line of ours, not a page of stack frames
    outcome = run_torchrun(torchrun_arguments(options, meet, port, address, script), options.grace_seconds)
    keeper.wait_for_ranks()
    if outcome == STOPPED:
        here, seconds = socket.gethostname(), options.linger_seconds
        if not keeper.told:
            say(f"launch on {here}: a rank or a peer is lost; keeping the node up to {seconds} s for a requeue")
        keeper.wait_for_sigterm(seconds)
    return outcome


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nproc-per-node", type=int, required=True, help="ranks on this node: its GPUs")
    parser.add_argument("--grace-seconds", type=int, default=120, help="the platform's KillWait (default 120)")
    parser.add_argument(
        "--linger-seconds", type=int, default=30, help="to wait for the platform after a loss (default 30)"
    )
    parser.add_argument(
        "--join-seconds", type=int, default=300, help="to wait for all nodes at the start (default 300)"
    )
    parser.add_argument("--port", type=int, default=0, help="of the meeting point (default: from job id and attempt)")
    parser.add_argument("script", nargs=argparse.REMAINDER, help="the training script and its arguments")
    options = parser.parse_args(arguments)
    if not options.script:
        parser.error("which script? give its path after the options")
    return options, options.script


def torchrun_arguments(
    options: argparse.Namespace, meet: Meeting, port: int, address: str, script: list[str]
) -> list[str]:
    """A fixed number of nodes and no restarts inside an attempt: what replaces a node is Slurm's requeue."""
    return [
        f"--nnodes={meet.nodes}",
        f"--nproc-per-node={options.nproc_per_node}",
        "--max-restarts=0",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={meet.host}:{port}",
        f"--rdzv-id={meet.run_id}",
        f"--rdzv-conf=is_host={int(meet.is_host)},join_timeout={options.join_seconds}",
        f"--local-addr={address}",
        *script,
    ]


def run_torchrun(arguments: list[str], grace_seconds: int) -> int:
    """0: all ranks finished. STOPPED: a peer or a rank was lost. Else the exit code of the rank that failed first."""
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError as TorchRendezvousError

    wait_for_the_grace(grace_seconds)
    try:
        torchrun.run(torchrun.parse_args(arguments))
    except SignalException as signalled:
        return STOPPED if signalled.sigval == signal.SIGTERM else 128 + int(signalled.sigval)
    except ChildFailedError as failed:
        codes = [failure.exitcode for failure in failed.failures.values()]
        say(f"launch on {socket.gethostname()}: ranks ended with {codes} (a negative one is the signal that killed it)")
        # A rank that raised an error of its own is the script's affair. One that was killed, or lost a peer, isn't.
        return next((code for code in codes if 0 < code != STOPPED), STOPPED)
    except (TorchRendezvousError, ConnectionError, RuntimeError) as lost:
        say(f"launch on {socket.gethostname()}: the other nodes are out of reach ({str(lost).splitlines()[0]})")
        return STOPPED
    return 0


def wait_for_the_grace(grace_seconds: int) -> None:
    """Let torchrun wait that long between SIGTERM and SIGKILL, wherever it ends its ranks."""
    from torch.distributed.elastic.multiprocessing.api import PContext

    close = PContext.close

    def close_after_grace(self: PContext, death_sig: signal.Signals | None = None, timeout: int = 30) -> Any:
        return close(self, death_sig, max(timeout, grace_seconds))

    PContext.close = close_after_grace  # type: ignore[method-assign]


def slurm_node_address(name: str) -> str:
    """NodeAddr of a node, from Slurm; ValueError where it can't say."""
    command = ["scontrol", "show", "node", name, "--oneliner"]
    try:
        shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=NODE_ADDRESS_SECONDS).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise ValueError(f"scontrol show node {name}: {error}") from error
    for field in shown.split():
        if field.startswith("NodeAddr="):
            return field.removeprefix("NodeAddr=")
    raise ValueError(f"scontrol show node {name} gave no NodeAddr")


def name_interface(address: str) -> None:
    """Name the interface that other nodes are reached by; gloo and NCCL would guess. What the user set stays."""
    packed = socket.inet_aton(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:  # an interface without an address
                continue
            if answer[20:24] == packed:
                os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
                os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={name}")
                return


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # torch's own tidying up takes seconds, and the job's next attempt waits for them
