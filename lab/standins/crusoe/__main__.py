"""``python -m lab.standins.crusoe``: the cloud on loopback with one node pool, to try a stack against it."""

from __future__ import annotations

import argparse
import asyncio
import base64
import secrets

from lab.standins.crusoe.cloud import Cloud
from lab.standins.crusoe.server import serving
from sparewheel.clock import SystemClock
from sparewheel.crusoe.signing import Credentials


async def main() -> None:
    parser = argparse.ArgumentParser(description="Plays Crusoe Cloud's API on loopback until it is interrupted.")
    parser.add_argument("--port", type=int, default=8460)
    parser.add_argument("--vms", type=int, default=3)
    parser.add_argument("--stock", type=int, default=4, help="hosts that are free at the start, those VMs included")
    asked = parser.parse_args()
    kind = "h100-80gb-sxm-ib.8x"
    cloud = Cloud(SystemClock(), "09ae8411-0fbb-411c-898c-2b8f19622ae1")
    cloud.stock[kind] = asked.stock
    pool = cloud.add_pool("gpu", cloud.new_id(), kind, asked.vms)
    key = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
    async with serving(cloud, Credentials("played-key", key), asked.port) as server:
        print(
            f"url {server.url}\nproject {cloud.project}\nnode pool {pool.id}\naccess key played-key\nsecret key {key}"
        )
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
