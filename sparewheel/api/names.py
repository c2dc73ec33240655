"""Every label, annotation, taint, condition, reason and object name, each written once."""

from __future__ import annotations

from typing import Final

GROUP: Final = "sparewheel.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
NAMESPACE: Final = "sparewheel"
FIELD_MANAGER: Final = "sparewheel"

# Labels on Nodes and GpuHosts.
LABEL_POOL: Final = f"{GROUP}/pool"
LABEL_HOST: Final = f"{GROUP}/host"
LABEL_ROLE: Final = f"{GROUP}/role"
"""On a Node: ``active`` (takes the pool's work), ``spare`` (warm spare), ``quarantined``."""
ROLE_ACTIVE: Final = "active"
ROLE_SPARE: Final = "spare"
ROLE_QUARANTINED: Final = "quarantined"

# Taints on Nodes. All NoSchedule: NoExecute would evict the pod that vetoes.
TAINT_JOINING: Final = f"{GROUP}/joining"
"""Set at registration; only the controller or capacity code lifts it, after the checks."""
TAINT_SPARE: Final = f"{GROUP}/spare"
SPARE_WARM: Final = "warm"
"""Value of the spare taint that the pool's own workers tolerate: the spare passed its checks."""
TAINT_FAULT: Final = f"{GROUP}/fault"
TAINT_QUARANTINED: Final = f"{GROUP}/quarantined"

# Veto: a pod with this label on a node keeps the node from being drained and replaced.
LABEL_VETO: Final = f"{GROUP}/veto"
VETO_VALUE: Final = "true"
ANNOTATION_VETO: Final = LABEL_VETO
"""On a Node (alone) or a pod (beside its label): ``until=<RFC 3339>; reason``, both optional."""

# Annotations.
ANNOTATION_REMEDIATION: Final = f"{GROUP}/remediation"
"""On a Node: name of the open Remediation that cordoned it."""
ANNOTATION_OWNED: Final = f"{GROUP}/owned"
"""On a Node, beside it: which of ``cordon`` and ``fault-taint`` that Remediation brought, and takes back."""
ANNOTATION_INCARNATION: Final = f"{GROUP}/incarnation"
ANNOTATION_KINDS: Final = f"{GROUP}/kinds"
"""On what the stack declares of our kinds: the version of the kinds that it was written by."""
ANNOTATION_REPLACE_REQUEST: Final = f"{GROUP}/replace"
"""On a Node: a person asks for its replacement; the value says who and why."""
ANNOTATION_NOTIFY_TEST: Final = f"{GROUP}/notify-test"
"""On the policy: a person asks for test messages; the answer stands in the policy's status."""

ANNOTATION_CANCEL: Final = f"{GROUP}/cancel"
"""On a Remediation: a person calls it off; ``WHO at TIME: reason``."""
ANNOTATION_HOST_REQUEST: Final = f"{GROUP}/request"
"""On a GpuHost: a person wants it released or quarantined; JSON, see ``api.gpu_host.HostRequest``."""
ANNOTATION_HOST_ANSWER: Final = f"{GROUP}/answer"
"""On a GpuHost: what became of the last such request, in words."""
ANNOTATION_NODE_ACTION: Final = f"{GROUP}/node-action"
"""On a Node: the controller asks the node's helper for an action (``sparewheel.api.node_action``); the answer stands in
NodeHealth's ``status.action``."""

# Node condition written by the agent.
CONDITION_GPU_HEALTHY: Final = "GpuHealthy"
OWN_CONDITIONS: Final = frozenset(("Ready", CONDITION_GPU_HEALTHY))
"""Node conditions that are looked at anyway; for every other one a stack may have a rule."""
USUAL_CONDITIONS: Final = frozenset(("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"))
"""Each Node has these; they tell something only while they are True."""
REASON_ALL_HEALTHY: Final = "AllGpusHealthy"
REASON_FAULT_OPEN: Final = "FaultOpen"
REASON_COUNT_MISMATCH: Final = "DeviceMissing"
REASON_NOT_EVALUATED: Final = "NotEvaluated"

# Reasons of the controller's Events.
EVENTS_REPORTER: Final = f"{GROUP}/controller"
REASON_DETECTED: Final = "FaultDetected"
REASON_FENCED: Final = "NodeFenced"
REASON_VETOED: Final = "ReplacementVetoed"
REASON_MENDING: Final = "NodeMending"
REASON_MENDED: Final = "NodeMended"
REASON_NOT_MENDED: Final = "NodeNotMended"
REASON_WAITING_FOR_SPARE: Final = "WaitingForSpare"
REASON_REPLACED: Final = "NodeReplaced"
REASON_CLOSED: Final = "RemediationClosed"
REASON_CANCELLED: Final = "RemediationCancelled"
REASON_JOB_REQUEUED: Final = "JobRequeued"
REASON_JOB_RESUMED: Final = "JobResumed"
REASON_JOB_LOST: Final = "JobNotRequeued"

# Fault codes that are not XIDs.
CODE_NODE_LOST: Final = "NODE_LOST"
CODE_NODE_REMOVED: Final = "NODE_REMOVED"
NODE_CODES: Final = (CODE_NODE_LOST, CODE_NODE_REMOVED)
"""No GPU's fault but the node's as a whole; ruled by their own names only."""
CODE_GPU_OFF_BUS: Final = "GPU_OFF_BUS"
CODE_GPU_MISSING: Final = "GPU_MISSING"
CODE_MANUAL: Final = "MANUAL"
CODE_ECC_UNCORRECTABLE: Final = "ECC_UNCORRECTABLE"
CODE_HCA_MISSING: Final = "HCA_MISSING"
CODE_IB_PORT_DOWN: Final = "IB_PORT_DOWN"
CODE_IB_LINK_FLAPPING: Final = "IB_LINK_FLAPPING"
CODE_IB_LINK_ERRORS: Final = "IB_LINK_ERRORS"
CODE_UVM_FATAL: Final = "UVM_FATAL"
CODE_AMD_RAS_UE: Final = "AMD_RAS_UE"
CODE_AMD_RAS_CE: Final = "AMD_RAS_CE"
CODE_MLX5_FATAL: Final = "MLX5_FATAL"
CODE_MLX5_WARNING: Final = "MLX5_WARNING"
MEASURED_CODES: Final = (
    *(CODE_GPU_MISSING, CODE_ECC_UNCORRECTABLE, CODE_HCA_MISSING),
    *(CODE_IB_PORT_DOWN, CODE_IB_LINK_FLAPPING, CODE_IB_LINK_ERRORS),
)
"""What the agent measures itself; no log line tells them."""

# Slinky (slurm-operator v1beta1; names from its API's well-known keys).
SLINKY_GROUP: Final = "slinky.slurm.net"
SLINKY_VERSION: Final = "v1beta1"
SLINKY_NODE_CORDON_REASON: Final = "nodeset.slinky.slurm.net/node-cordon-reason"
SLINKY_POD_HOSTNAME: Final = "nodeset.slinky.slurm.net/pod-hostname"
SLINKY_POD_PROTECT: Final = "nodeset.slinky.slurm.net/pod-protect"
SLINKY_POD_DELETION_COST: Final = "nodeset.slinky.slurm.net/pod-deletion-cost"
SLINKY_CLUSTER: Final = "slinky.slurm.net/cluster"
LABEL_APP_NAME: Final = "app.kubernetes.io/name"
LABEL_APP_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_APP_COMPONENT: Final = "app.kubernetes.io/component"
SLURMD_APP_NAME: Final = "slurmd"

GPU_RESOURCE: Final = "nvidia.com/gpu"

# Reason text in Slurm. No other prefix of ours may start with it (two owners, one prefix: hands off).
SLURM_REASON_PREFIX: Final = "sparewheel:"
REASON_UNRESERVED: Final = "sparewheel: a spare without its reservation (drained until it has one)"
REASON_REGISTERS: Final = "sparewheel:registered"
"""Why a worker of a pool with warm spares registers drained. Without a blank: it is part of slurmd's arguments."""

NODE_STATE_FOLDER: Final = "/run/sparewheel"
"""On each host, in memory: what its agent marks for those who can't ask the API server."""
NODE_STATE_FILE: Final = f"{NODE_STATE_FOLDER}/node-state"
LAST_RESET_FILE: Final = f"{NODE_STATE_FOLDER}/last-reset"
"""``PCI TIME`` of the last GPU that the node's helper reset: the agent takes its healed faults back."""
NVML_PAUSE_FILE: Final = f"{NODE_STATE_FOLDER}/nvml-pause"
"""While it is there the agent holds no GPU open: the node's helper resets one."""

AGENT_APP_NAME: Final = "sparewheel-agent"
"""Value of ``app.kubernetes.io/name`` on the agents' pods."""
AGENT_ACCOUNT: Final = AGENT_APP_NAME
"""Service account of the agents, in our namespace; an admission policy binds it to its node."""
CONTROLLER_APP_NAME: Final = "sparewheel-controller"
"""Value of ``app.kubernetes.io/name`` on the controllers' pods."""
CONTROLLER_ACCOUNT: Final = CONTROLLER_APP_NAME
"""Service account of the controller, in our namespace; an admission policy lets it alone ask for actions on nodes."""
CONTROLLER_ENVIRONMENT: Final = {
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "MALLOC_ARENA_MAX": "2",
    "PYTHONMALLOC": "malloc",
}
"""Of its process (mallopt(3)): what long lists took can go back to the system page by page, not only where all of a
megabyte of Python's own is free (``sparewheel.heap``)."""
BOOTSTRAP_TOKEN_TYPE: Final = "bootstrap.kubernetes.io/token"  # noqa: S105 - the type of a Secret
BOOTSTRAPPERS: Final = "system:bootstrappers:kubeadm:default-node-token"
"""Whom kubeadm lets join: a kubelet with a bootstrap token."""
CLAIM_OF_INCIDENT: Final = "remediation/"
"""Claims on GpuHosts whose owner begins so are held by incidents."""
CONTROLLER_LEASE: Final = CONTROLLER_APP_NAME
POLICY_NAME: Final = "default"


def pool_lease(pool: str) -> str:
    """Name of the Lease that says who drives a pool's capacity."""
    return f"sparewheel-pool-{pool}"
