#!/bin/sh
# The agent on a real NVIDIA GPU: under two minutes, as root, from the repository's root. Nothing is reset or changed.
set -eu
cd "$(dirname "$0")/../.."
nvidia-smi --query-gpu=index,pci.bus_id,driver_version,name --format=csv
exec timeout 110 python3 -m pytest -q -ra tests/gpu "$@"
