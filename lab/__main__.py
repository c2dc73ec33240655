"""`python -m lab`: the data centre on this machine."""

import re
import sys
from enum import StrEnum
from typing import Annotated

import typer

from lab.cluster.lifecycle import DataCentre, NotUpError
from lab.cluster.network import NetworkConflictError
from lab.cluster.preflight import NotReadyError
from lab.cluster.shell import CommandError
from lab.images.ensure import ensure_images
from lab.machines.inject import Bite, inject_xid
from lab.machines.inventory import load_inventory
from lab.machines.power import Power, PowerError
from lab.objects import hosts as platform_hosts
from lab.objects import stack_is_up
from lab.paths import Paths, paths_from_environment
from lab.rack.rack import Rack
from lab.reach import next_lines
from lab.restore import NotHealthyError, restore
from lab.supervisor.client import SupervisorError
from lab.toolchain.errors import ToolchainError
from sparewheel.faults.asks import asks_for

app = typer.Typer(help="A small data centre on this machine.", no_args_is_help=True, pretty_exceptions_enable=False)
ERRORS = (
    NotReadyError,
    NetworkConflictError,
    NotUpError,
    NotHealthyError,
    CommandError,
    PowerError,
    SupervisorError,
    ToolchainError,
    ValueError,
    OSError,
)


class Verb(StrEnum):
    """What the power command does."""

    ON = "on"
    OFF = "off"
    CRASH = "crash"
    RESET = "reset"
    STATUS = "status"


@app.command()
def up(
    gpu_hosts: Annotated[
        int | None, typer.Option(help="Number of GPU hosts; kept from the last time when left out.")
    ] = None,
) -> None:
    """Start it, or go on where the last run stopped."""
    paths = paths_from_environment()
    ensure_images(paths)
    inventory = DataCentre(paths).up(gpu_hosts)
    typer.echo(f"up: {', '.join(h.name for h in inventory.hosts)}")
    typer.echo(f"  kubectl --kubeconfig {paths.kubeconfig} get nodes")
    typer.echo(f"  ssh -F {paths.ssh}/config {inventory.hosts[0].name}")


@app.command()
def down() -> None:
    """Stop it and remove its state; checks that nothing is left."""
    left = DataCentre(paths_from_environment()).down()
    if left:
        typer.echo("still there: " + "; ".join(left), err=True)
        raise typer.Exit(1)
    typer.echo("down: no process, namespace, mount, bridge or state is left")


@app.command()
def status() -> None:
    """Say what runs; exit 1 when a daemon or host that should run doesn't."""
    paths = paths_from_environment()
    data_centre = DataCentre(paths)
    daemons, hosts = data_centre.status()
    for name, state in daemons.items():
        typer.echo(f"{name:26} {state}")
    for item in hosts:
        typer.echo(f"{item.host.name:26} power {item.power:4} node {item.node}")
    if all(state == "running" for state in daemons.values()):
        for line in platform_lines(paths):
            typer.echo(line)
    wanted_off = [i.host.name for i in hosts if i.power == "off" and data_centre.power.is_wanted(i.host)]
    if wanted_off or any(state != "running" for state in daemons.values()):
        raise typer.Exit(1)


def platform_lines(paths: Paths) -> list[str]:
    """What each GPU host is in its pool, where the platform can say it, and how to reach it."""
    if not paths.kubeconfig.exists():
        return []
    try:
        if not stack_is_up(paths):
            return ["the platform is not on the cluster", f"export KUBECONFIG={paths.kubeconfig}"]
        phases = {name: host.status for name, host in sorted(platform_hosts(paths).items())}
    except (CommandError, OSError) as error:
        return [f"what the hosts are in their pools can't be asked: {str(error).splitlines()[0]}"]
    said = [f"{name:26} {host.phase.value} {host.reason}".rstrip() for name, host in phases.items()]
    return [*said, "to go on, type:", *(f"  {line}" for line in next_lines(paths))]


@app.command()
def rack(
    hosts: Annotated[int, typer.Argument(help="How many bare machines; 0 takes the rack away.")],
) -> None:
    """Put bare machines beside it, which are in no cluster (bare-0 without GPUs), or take them away."""
    paths = paths_from_environment()
    beside = Rack(paths)
    if hosts == 0:
        beside.down()
        return
    ensure_images(paths)
    inventory = beside.up(hosts)
    typer.echo(f"up: {', '.join(h.name for h in inventory.hosts)}")
    typer.echo(f"  ssh -F {beside.paths.ssh}/config {inventory.hosts[0].name}")
    typer.echo(
        f"  SPAREWHEEL_LAB_STATE={beside.paths.state} SPAREWHEEL_LAB_RUN={beside.paths.run} python -m lab.stack up"
    )


@app.command()
def kubeconfig() -> None:
    """Print the administrator's kubeconfig."""
    path = paths_from_environment().kubeconfig
    if not path.exists():
        raise FileNotFoundError(f"no cluster in {path.parent}; run 'python -m lab up' first")
    typer.echo(path.read_text(), nl=False)


@app.command()
def reset() -> None:
    """Bring every host back to health: power, all GPUs, a new kernel log.

    Where the platform is on the cluster, its jobs and records go too and its pools are awaited; else GPU hosts are out
    of the cluster afterwards.
    """
    paths = paths_from_environment()
    centre = DataCentre(paths)
    centre.up()
    if stack_is_up(paths):
        restore(paths)
    else:
        centre.reset()


@app.command()
def images() -> None:
    """Bring new or changed image files into the store and the running hosts."""
    changed = DataCentre(paths_from_environment()).import_images()
    typer.echo(f"{len(changed)} image files were new or changed")


@app.command()
def power(name: str, verb: Verb) -> None:
    """Switch a host on or off, cut its power (crash), or ask."""
    paths = paths_from_environment()
    host = load_inventory(paths.state).host(name)
    switch = Power(paths)
    verbs = {Verb.ON: switch.on, Verb.OFF: switch.off, Verb.CRASH: switch.crash, Verb.RESET: switch.reset}
    if verb in verbs:
        verbs[verb](host)
    typer.echo("on" if switch.is_on(host) else "off")


@app.command()
def inject(
    fault: Annotated[str, typer.Argument(help="xid79, xid31, ...")],
    host: Annotated[str, typer.Option(help="The host that is struck.")],
    gpu: Annotated[int, typer.Option(help="Which of its GPUs, from 0.")] = 0,
    bite: Annotated[Bite, typer.Option(help="What it does to the processes on that GPU.")] = Bite.CRASH,
) -> None:
    """Let a GPU fail: the kernel says so in the host's log, and the fault bites."""
    if not re.fullmatch("xid[0-9]{1,4}", fault):
        raise typer.BadParameter(f"{fault!r} is not xid and a number, such as xid79")
    paths = paths_from_environment()
    done = inject_xid(paths, load_inventory(paths.state).host(host), int(fault[3:]), gpu, bite)
    typer.echo(done.record.rstrip())
    typer.echo(f"{bite.value}: {', '.join(f'{p.pid} {p.name}' for p in done.victims) or 'no process used that GPU'}")
    typer.echo(asks_for(f"XID {int(fault[3:])}"))


def main() -> None:
    """Errors of the data centre are one line."""
    try:
        app()
    except PermissionError as error:
        sys.exit(f"error: {error}; the data centre belongs to root, run the command again with sudo")
    except ERRORS as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on from here, 'python -m lab down' removes everything")


if __name__ == "__main__":
    main()
