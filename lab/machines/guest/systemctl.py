"""systemctl on a bare host: what kubeadm asks about the kubelet's service, answered by the host's supervisor."""

import sys
from pathlib import Path

from lab.machines.guest.files import SUPERVISOR_RUN
from lab.machines.guest.units import kubelet_service
from lab.supervisor.client import Supervisor

INACTIVE = 3


def main() -> int:
    """`start|stop|restart|status|is-active|is-enabled kubelet`; other services are not there."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    quiet = "--quiet" in sys.argv or "-q" in sys.argv
    if words == ["daemon-reload"]:
        return 0
    verb, name = (words[0], words[1].removesuffix(".service")) if len(words) == 2 else ("", "")
    supervisor = Supervisor(Path(SUPERVISOR_RUN))
    if name not in ("kubelet", "containerd"):
        print(f"Unit {name}.service could not be found." if verb == "status" else "inactive")
        return 4 if verb == "status" else INACTIVE
    if verb in ("stop", "restart") and name == "kubelet":
        supervisor.stop(name)
    if verb in ("start", "restart") and name == "kubelet":
        supervisor.start(kubelet_service())
    if verb == "is-enabled":
        print("enabled")
    if verb in ("is-active", "status"):
        status = supervisor.find(name)
        active = status is not None and status.state in ("running", "waiting")
        if not quiet:
            print("active" if active else "inactive")
        return 0 if active else INACTIVE
    return 0 if verb in ("start", "stop", "restart", "is-enabled") else 1


if __name__ == "__main__":
    sys.exit(main())
