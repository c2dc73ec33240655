"""``python -m sparewheel.remediation.controller.job_look JOBID``: what Slurm knows of a job now, as JSON. Only reads.

Run where the controller runs, which may ask Slurm.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

from sparewheel.remediation.controller.settings import read_settings
from sparewheel.remediation.decide.own_end import ended_by_itself, exit_words
from sparewheel.remediation.stages.views import job_view
from sparewheel.slurm.port import Slurm, SlurmError, SlurmNotFoundError


async def look(slurm: Slurm, job_id: int) -> dict[str, Any]:
    """Empty for a job that slurmctld does not know (any more). Raises SlurmError where it can't be asked."""
    try:
        job = await slurm.job(job_id)
    except SlurmNotFoundError:
        return {}
    view = job_view(job)
    own_end = exit_words(view) if ended_by_itself(view) else ""
    held = view.state_reason if view.held else ""
    return {"restarts": job.restart_count, "states": sorted(job.states), "ownEnd": own_end, "held": held}


async def main(arguments: list[str]) -> int:
    from sparewheel.remediation.controller.__main__ import build

    settings = read_settings(arguments[1:])
    async with AsyncExitStack() as stack:
        controller = await build(settings, stack)
        try:
            found = await look(controller.slurm, int(arguments[0]))
        except SlurmError as error:
            print(str(error), file=sys.stderr)
            return 1
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
