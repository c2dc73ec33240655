"""Shell scripts of the side containers. What they do is the real operator's; the words are ours."""

from __future__ import annotations

from typing import Final

from lab.standins.slinky.pace import RECONFIGURE_POLL_SECONDS

LOGFILE: Final = """\
set -eu
pipe="${SOCKET:-/tmp/logfile.log}"
mkdir -p "${pipe%/*}"
# A pipe that is there already is kept: a writer that restarts may have it open.
[ -p "$pipe" ] || { rm -f "$pipe"; mkfifo -m 777 "$pipe"; }
# A shell that is process 1 ends on TERM only where it says so; else every pod would take its whole grace to end.
trap 'exit 0' TERM
# The pipe ends with each writer; open it again for the next one.
while :; do
  cat "$pipe" &
  wait $! || sleep 1
done
"""
"""Makes the log file a pipe and prints what the daemon writes into it."""

INITCONF: Final = """\
set -eu
from=/mnt/slurm
to=/mnt/etc/slurm
for file in "$from"/*; do
  [ -f "$file" ] || continue
  cp -L "$file" "$to/"
  chown "${SLURM_USER:-slurm}:${SLURM_USER:-slurm}" "$to/${file##*/}"
  chmod 600 "$to/${file##*/}"
done
"""
"""Copies key files to a volume where they belong to Slurm's user with mode 0600."""

RECONFIGURE: Final = f"""\
set -eu
trap 'exit 0' TERM
state() {{ find -L /etc/slurm -type f -exec sha256sum {{}} + | sort -k2 | sha256sum; }}
last=$(state)
while :; do
  sleep {RECONFIGURE_POLL_SECONDS} &
  wait $!
  now=$(state)
  [ "$now" = "$last" ] && continue
  until scontrol reconfigure; do sleep 2; done
  last=$now
done
"""
"""Tells slurmctld to read its files again when one of them has changed."""
