"""A command inside one of our pods: by kubectl, which knows the ways to a cluster, or itself where there is none."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Sequence

from sparewheel.api.names import NAMESPACE
from sparewheel.cli.common import CommandError
from sparewheel.kube.client import KubeClient
from sparewheel.kube.execute import execute

SECONDS = 60.0


async def in_pod(kube: KubeClient, pod: str, command: Sequence[str], what: str) -> str:
    """What it printed. CommandError, with ``what`` was to be done, when it ends with another code than 0."""
    if shutil.which("kubectl"):
        return await asyncio.to_thread(_by_kubectl, pod, command, what)
    done = await execute(kube.access, NAMESPACE, pod, command, SECONDS)
    if done.code != 0:
        raise CommandError(f"{what}: {(done.err or done.message).strip()[-300:] or 'its pod did not say why'}")
    return done.out.strip()


def _by_kubectl(pod: str, command: Sequence[str], what: str) -> str:
    whole = ["kubectl", "-n", NAMESPACE, "exec", pod, "--", *command]
    try:
        done = subprocess.run(whole, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise CommandError(f"{what}: pod {pod} did not answer within {SECONDS:.0f} s; is its node up?") from None
    if done.returncode:
        raise CommandError(f"{what}: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()
