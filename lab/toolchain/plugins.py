"""What Pulumi starts beside its own program: the Python scripts of the SDK, and the plugin for pulumi-command."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.toolchain import onpath
from lab.toolchain.build import built, link, module_folder
from lab.toolchain.paths import REPOSITORY, bin_folder, store_folder
from lab.toolchain.tools import PROFILES, Tool

COMMAND_PLUGIN = "pulumi-resource-command"
COMMAND_VERSION = "1.2.1"
_SDK = "github.com/pulumi/pulumi/sdk/v3"
_SCRIPTS = (
    "python/cmd/pulumi-language-python-exec",
    "python/dist/pulumi-resource-pulumi-python",
    "python/dist/pulumi-analyzer-policy-python",
)


def ensure_scripts() -> None:
    """Copy the three scripts that belong to the Python language host from its module, never into the checkout."""
    host = _language_host()
    folder = store_folder() / f"pulumi-python-scripts-{host.version}"
    wanted = {Path(script).name: folder / Path(script).name for script in _SCRIPTS}
    if not all(path.exists() for path in wanted.values()):
        origin = module_folder(host, _SDK)
        folder.mkdir(parents=True, exist_ok=True)
        for script in _SCRIPTS:
            target = wanted[Path(script).name]
            fresh = target.with_name(f".{target.name}.new")
            shutil.copyfile(origin / script, fresh)
            fresh.chmod(0o755)
            fresh.replace(target)
    for name, path in wanted.items():
        link(name, path)
    _beside_the_host(host, wanted["pulumi-language-python-exec"])


def _beside_the_host(host: Tool, executor: Path) -> None:
    """The language host looks for its executor in the folder where it lies itself, behind every link."""
    place = built(host).with_name(executor.name)
    if place.parent.is_dir() and not place.exists():
        shutil.copyfile(executor, place)
        place.chmod(0o755)


def ensure_machines_scripts(pulumi: Path) -> None:
    """The machine's own Pulumi brings its own scripts in its own folder."""
    for script in _SCRIPTS:
        name = Path(script).name
        if (pulumi.resolve().parent / name).exists():
            link(name, pulumi.resolve().parent / name)


def ensure_command_plugin(venv: Path) -> None:
    """Install the stand-in for pulumi-command, unless the real plugin is on this machine."""
    place = bin_folder() / COMMAND_PLUGIN
    if onpath.find(COMMAND_PLUGIN) or onpath.pulumi_plugin("command", COMMAND_VERSION):
        place.unlink(missing_ok=True)
        return
    text = (
        "#!/bin/sh\n"
        f'export PYTHONPATH="${{SPAREWHEEL_CHECKOUT:-{REPOSITORY}}}"\n'  # checkouts share this folder
        f"exec '{venv}/bin/python' -m lab.toolchain.command_plugin \"$@\"\n"
    )
    if place.exists() and not place.is_symlink() and place.read_text() == text:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}.new")
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.replace(place)


def _language_host() -> Tool:
    return next(tool for tool in PROFILES["pulumi"] if tool.name == "pulumi-language-python")
