"""The running data centre for tests: started where it isn't, never stopped by a fixture."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from lab import stack
from lab.cluster.bootstrap import kubectl as run_kubectl
from lab.cluster.lifecycle import DataCentre
from lab.demo.receiver import receiver
from lab.demo.researcher import Researcher
from lab.images.ensure import ensure_images
from lab.machines.inventory import MACHINE_IP, ONCALL_PORT, Inventory, load_inventory
from lab.objects import stack_is_up
from lab.paths import Paths, paths_from_environment
from lab.restore import restore
from tests.lab.machine import Machine
from tests.lab.platform import GRACE_SECONDS, Platform, ssh_works

WIPES_EVERYTHING = "wipes_everything"


def pytest_configure(config: pytest.Config) -> None:
    """Our marker."""
    config.addinivalue_line("markers", f"{WIPES_EVERYTHING}: takes the data centre down; runs before all others")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that wipes the data centre comes first, so that it takes nothing from under another."""
    items.sort(key=lambda item: item.get_closest_marker(WIPES_EVERYTHING) is None)


class Kubectl(Protocol):
    """kubectl as the administrator."""

    def __call__(self, *arguments: str, stdin: str | None = None, timeout_seconds: float = 60) -> str:
        """Its standard output; an error has its message."""
        ...


@pytest.fixture(scope="session")
def lab_paths() -> Paths:
    """Where this data centre keeps things."""
    return paths_from_environment()


@pytest.fixture(scope="session")
def data_centre(lab_paths: Paths) -> DataCentre:
    """A data centre that is up, with images of the code as it is."""
    ensure_images(lab_paths)
    centre = DataCentre(lab_paths)
    centre.up()
    return centre


@pytest.fixture
def clean_data_centre(data_centre: DataCentre) -> DataCentre:
    """A data centre whose GPU hosts are on, healthy and outside the cluster."""
    data_centre.reset()
    return data_centre


@pytest.fixture
def inventory(data_centre: DataCentre) -> Inventory:
    """Its machines."""
    return load_inventory(data_centre.paths.state)


@pytest.fixture
def kubectl(data_centre: DataCentre) -> Kubectl:
    """kubectl against its cluster."""

    def call(*arguments: str, stdin: str | None = None, timeout_seconds: float = 60) -> str:
        return run_kubectl(data_centre.paths, *arguments, stdin=stdin, timeout_seconds=timeout_seconds)

    return call


@pytest.fixture
def machine(data_centre: DataCentre) -> Callable[[str], Machine]:
    """A host by its name, reached over SSH."""

    def connect(name: str) -> Machine:
        return Machine(name, data_centre.paths.ssh / "config")

    return connect


@pytest.fixture
def namespace(kubectl: Kubectl) -> Iterator[str]:
    """A namespace of the test's own, gone afterwards."""
    name = f"test-{time.time_ns() // 1_000_000}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def standing(data_centre: DataCentre, lab_paths: Paths) -> Iterator[Platform]:
    """The stack on the data centre, and somewhere for messages to go. Hosts that others have joined leave first."""
    if not stack_is_up(lab_paths):
        data_centre.reset()
    stack.choose(lab_paths, warm_spares=False)
    stack.up(lab_paths, grace_seconds=GRACE_SECONDS)
    with receiver(MACHINE_IP, ONCALL_PORT) as inbox:
        platform = Platform(lab_paths, Researcher(lab_paths, "alice"), inbox)
        Platform.awaiting("alice can log in", lambda: ssh_works(platform.alice), 120, lambda: "ssh refuses")
        yield platform


@pytest.fixture
def platform(standing: Platform) -> Platform:
    """Everything healthy, no job, no record, no message."""
    restore(standing.paths)
    standing.inbox.messages.clear()
    return standing
