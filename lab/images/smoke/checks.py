"""What is tried: the things that users, the operator and the controller do with Slurm."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

from lab.images.smoke import config
from lab.images.smoke.cluster import Cluster, SmokeError

Check = Callable[[Cluster], None]


def accounting_starts(cluster: Cluster) -> None:
    """MariaDB makes its database and slurmdbd answers."""
    variables = {
        "MARIADB_DATABASE": "slurm_acct_db",
        "MARIADB_USER": "slurm",
        "MARIADB_PASSWORD": config.DATABASE_PASSWORD,
    }
    cluster.start("dbd", "mariadb-entrypoint", *config.DATABASE_ARGUMENTS, env=variables)
    cluster.until("MariaDB listens", 60, lambda: ":3306" in cluster.run("dbd", "ss -ltn"))
    cluster.start("dbd", "slurmdbd-entrypoint", uid=401)
    cluster.until("slurmdbd listens", 60, lambda: ":6819" in cluster.run("dbd", "ss -ltn"))


def nodes_register(cluster: Cluster) -> None:
    """Three dynamic workers with eight GPUs each, an empty topology in their arguments."""
    cluster.start("ctl", "slurmctld-entrypoint", uid=401)
    cluster.until("slurmctld listens", 30, lambda: ":6817" in cluster.run("ctl", "ss -ltn"))
    for node in config.WORKERS:
        arguments = ("-Z", "--conf-server", "ctl:6817", "--conf", config.WORKER_CONF)
        cluster.start(node, "slurmd-entrypoint", *arguments, env={"SLINKY_TOPOLOGY": ""})
    cluster.start("login", "login-entrypoint", env={"SACKD_OPTIONS": "--conf-server ctl:6817"})
    cluster.run("login", "for i in $(seq 100); do [ -S /run/slurm/sack.socket ] && exit 0; sleep 0.1; done; exit 1")
    cluster.until("three idle nodes", 30, lambda: cluster.run("login", "sinfo -h -t idle -o %D").strip() == "3")
    if "Gres=gpu:8" not in cluster.run("login", "scontrol show node gpu-0"):
        raise SmokeError("gpu-0 has not the eight GPUs of its arguments")


def user_logs_in(cluster: Cluster) -> None:
    """SSH with a key from a folder; the home directory is made at the first login."""
    key = cluster.work / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    keys = cluster.root("login") / "etc/ssh/authorized_keys.d"
    (keys / config.USER).write_text(key.with_suffix(".pub").read_text())
    argv = [
        "nsenter", "--net=/run/netns/ctl", "ssh", "-i", str(key), "-o", "StrictHostKeyChecking=no",
        "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", f"{config.USER}@10.99.0.2",
        "pwd; id -un; srun -N2 --gres=gpu:8 hostname",
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False)
    said = done.stdout.split()
    if said[:2] != [f"/home/{config.USER}", config.USER] or len(set(said[2:]) & set(config.WORKERS)) != 2:
        raise SmokeError(f"ssh printed {done.stdout!r} and {done.stderr!r}")


def torchrun_reduces(cluster: Cluster) -> None:
    """Plain torchrun with a c10d rendezvous over two nodes."""
    cluster.give_user("all_reduce.py", config.ALL_REDUCE)
    command = f"export OMP_NUM_THREADS=1; srun -N2 --gres=gpu:8 bash -c '{config.TORCHRUN}'"
    said = cluster.run("login", command, uid=config.UID, seconds=180)
    if sorted(line for line in said.splitlines() if "rank" in line) != ["rank 0 of 2 sum 3", "rank 1 of 2 sum 3"]:
        raise SmokeError(f"torchrun printed {said!r}")


def strike_is_survived(cluster: Cluster) -> None:
    """A node set DOWN by REST: the job starts again on a survivor and the free node, ahead of a larger rival."""
    cluster.give_user("rank.sh", config.RANK)
    cluster.give_user("train.sh", config.TRAIN)
    submit = "sbatch --parsable --gres=gpu:8 --open-mode=append"
    job = cluster.run("login", f"{submit} -N2 train.sh", uid=config.UID).strip()
    log = cluster.work / "home" / config.USER / f"slurm-{job}.out"
    cluster.until("both ranks run", 20, lambda: log.exists() and log.read_text().count("attempt 0 starts") == 2)
    cluster.run("login", f"{submit} -N3 train.sh", uid=config.UID)
    struck = cluster.run("login", f"squeue -h -j {job} -O BatchHost").strip()
    rest(cluster, "POST", f"/slurm/v0.0.44/node/{struck}", {"state": ["DOWN"], "reason": "smoke: XID 79"})
    cluster.until("attempt 1 runs", 20, lambda: log.read_text().count("attempt 1 starts") == 2)
    found = rest(cluster, "GET", f"/slurm/v0.0.45/job/{job}", None)["jobs"][0]
    if found["restart_cnt"] != 1 or "EXPEDITED_REQUEUE" not in found["flags"]:
        raise SmokeError(f"job {job} was started again, but not expedited: {found['flags']}, {found['restart_cnt']}")
    rest(cluster, "POST", f"/slurm/v0.0.44/node/{struck}", {"state": ["IDLE"]})
    cluster.run("login", f"scancel -u {config.USER}", uid=config.UID)
    record = f"sacct -X -n -o jobid -j {job}"
    cluster.until("accounting knows it", 30, lambda: job in cluster.run("login", record, uid=config.UID))


def rest_answers(cluster: Cluster) -> None:
    """slurmrestd as nobody, with a token."""
    cluster.start(
        "rest", "slurmrestd-entrypoint", "-s", "openapi/slurmctld", "0.0.0.0:6820", uid=65534,
        env={"SLURM_JWT": "daemon", "SLURMRESTD_SECURITY": "disable_unshare_files,disable_unshare_sysv"},
    )  # fmt: skip
    cluster.until("slurmrestd listens", 20, lambda: ":6820" in cluster.run("rest", "ss -ltn"))
    rest(cluster, "GET", "/slurm/v0.0.44/ping", None)


def rest(cluster: Cluster, method: str, path: str, body: object) -> dict[str, list[dict[str, Any]]]:
    """One request; SmokeError when the answer has errors."""
    token = cluster.run("ctl", "scontrol token username=slurm lifespan=600").strip().removeprefix("SLURM_JWT=")
    script = (
        "import json,sys,urllib.request as u\n"
        f"r=u.Request('http://rest:6820{path}',method={method!r},data=sys.argv[1].encode() or None,headers="
        f"{{'X-SLURM-USER-NAME':'slurm','X-SLURM-USER-TOKEN':'{token}','Content-Type':'application/json'}})\n"
        "print(u.urlopen(r,timeout=15).read().decode())"
    )
    data = "" if body is None else json.dumps(body)
    answer = json.loads(cluster.run("login", f"python3 -c \"{script}\" '{data}'"))
    if answer["errors"] or answer["warnings"]:
        raise SmokeError(f"{method} {path}: {answer['errors']} {answer['warnings']}")
    return answer


CHECKS: tuple[Check, ...] = (
    accounting_starts,
    nodes_register,
    user_logs_in,
    rest_answers,
    torchrun_reduces,
    strike_is_survived,
)


def run_checks(cluster: Cluster) -> None:
    """Run all in order, each with its time; the first failure ends it."""
    for check in CHECKS:
        started = time.monotonic()
        check(cluster)
        print(f"ok {check.__name__} ({time.monotonic() - started:.1f} s)", flush=True)
