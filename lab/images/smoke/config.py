"""Configuration of the small cluster, as the operator would write it."""

from __future__ import annotations

from lab.images.recipes import REPOSITORY

NODES = {
    "ctl": "10.99.0.1",
    "login": "10.99.0.2",
    "dbd": "10.99.0.3",
    "rest": "10.99.0.4",
    "gpu-0": "10.99.0.10",
    "gpu-1": "10.99.0.11",
    "gpu-2": "10.99.0.12",
}
WORKERS = ("gpu-0", "gpu-1", "gpu-2")
USER, UID = "alice", 2001
DATABASE_PASSWORD = "it's-a-password"

# Slurm ends itself on a write conflict that MariaDB reports with its newer default.
DATABASE_ARGUMENTS = (
    "--innodb-buffer-pool-size=64M",
    "--innodb-snapshot-isolation=OFF",
    "--innodb-lock-wait-timeout=900",
)

_COMMON = """
AuthType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
AuthInfo=use_client_ids
SlurmUser=slurm
"""

SLURM_CONF = f"""ClusterName=smoke
SlurmctldHost=ctl
{_COMMON}CredType=cred/slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
MaxNodeCount=64
SlurmctldParameters=enable_configless,reconfig_on_restart,enable_expedited_requeue
SchedulerParameters=requeue_delay=1,sched_interval=2,bf_interval=2
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=dbd
JobSubmitPlugins=lua
NodeSet=gpu Feature=gpu
PartitionName=gpu Nodes=gpu Default=YES
KillWait=30
ReturnToService=1
GresTypes=gpu
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
"""

SLURMDBD_CONF = f"""DbdHost=dbd
{_COMMON}StorageType=accounting_storage/mysql
StorageHost=10.99.0.3
StorageUser=slurm
StoragePass={DATABASE_PASSWORD}
StorageLoc=slurm_acct_db
LogFile=/var/log/slurm/slurmdbd.log
"""

CGROUP_CONF = "CgroupPlugin=disabled\n"
GRES_CONF = "AutoDetect=off\nName=gpu File=/dev/nvidia[0-7]\n"
SUBMIT_FILTER = REPOSITORY / "components/files/job_submit.lua"
ACCOUNTS = {
    "passwd": f"{USER}:x:{UID}:{UID}::/home/{USER}:/bin/bash\n",
    "group": f"{USER}:x:{UID}:\n",
    "shadow": f"{USER}:*:20000:0:99999:7:::\n",
}
SSHD_CONFIG = """Include /etc/ssh/sshd_config.d/*.conf
UsePAM yes
Subsystem sftp internal-sftp
AuthorizedKeysFile /etc/ssh/authorized_keys.d/%u
PasswordAuthentication no
StrictModes no
"""
WORKER_CONF = """'Features=gpu Gres=gpu:8 Topology='"$SLINKY_TOPOLOGY"''"""

RANK = """#!/bin/bash
save() { echo "$(hostname) attempt ${SLURM_RESTART_COUNT:-0} saves"; sleep 1; exit 0; }
trap save TERM
echo "$(hostname) attempt ${SLURM_RESTART_COUNT:-0} starts"
sleep 300 & wait
"""
TRAIN = """#!/bin/bash
trap "" TERM
srun bash rank.sh
"""
ALL_REDUCE = """
import datetime, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} sum {value.item():.0f}", flush=True)
dist.destroy_process_group()
"""
TORCHRUN = (
    "torchrun --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-id=smoke "
    "--rdzv-endpoint=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -1):29400 all_reduce.py"
)
