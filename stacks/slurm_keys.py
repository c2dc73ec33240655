"""The settings that slurm.conf may have: with any other slurmctld does not start, and a running one not again."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

KEYS_OF: Final = "26.05"
"""The release whose slurmctld was asked for them, each by a file with that key."""
KEYS: Final = """
AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost AccountingStorageHost
AccountingStorageParameters AccountingStoragePass AccountingStoragePort AccountingStorageTRES AccountingStorageType
AccountingStorageUser AccountingStoreFlags AccountingStoreJobComment AcctGatherEnergyType AcctGatherFilesystemType
AcctGatherInfinibandType AcctGatherInterconnectType AcctGatherNodeFreq AcctGatherProfileType AllowSpecResourcesUsage
AuthAltParameters AuthAltTypes AuthInfo AuthType BackupAddr BackupController BatchStartTimeout BcastExclude
BcastParameters BurstBufferParameters BurstBufferType CertgenParameters CertgenType CertmgrParameters CertmgrType
CliFilterParameters CliFilterPlugins ClusterName CommunicationParameters CompleteWait ControlAddr ControlMachine
CoreSpecPlugin CpuFreqDef CpuFreqGovernors CredType CryptoType DataParserParameters DebugFlags DefCPUPerGPU
DefMemPerCPU DefMemPerGPU DefMemPerNode DependencyParameters DisableRootJobs DownNodes EioTimeout EnforcePartLimits
Epilog EpilogMsgTime EpilogSlurmctld EpilogTimeout ExtSensorsFreq ExtSensorsType FairShareDampeningFactor FastSchedule
FederationParameters FirstJobId GetEnvTimeout GpuFreqDef GresTypes GroupUpdateForce GroupUpdateTime HashPlugin
HealthCheckInterval HealthCheckNodeState HealthCheckProgram HealthCheckTimeout HttpParserType InactiveLimit
InteractiveStepOptions JobAcctGatherFrequency JobAcctGatherParams JobAcctGatherType JobCompHost JobCompLoc
JobCompParams JobCompPass JobCompPassScript JobCompPort JobCompType JobCompUser JobContainerType
JobCredentialPrivateKey JobCredentialPublicCertificate JobFileAppend JobRequeue JobSubmitPlugins KeepAliveTime
KillOnBadExit KillWait Licenses LaunchParameters LaunchType LicenseParameters LogTimeFormat MCSParameters MCSPlugin
MailDomain MailProg MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId MaxMemPerCPU MaxMemPerNode
MaxNodeCount MaxStepCount MaxTasksPerNode MessageTimeout MetricsAuthUsers MetricsParameters MetricsType MinJobAge
MpiDefault MpiParams NodeName NamespaceType NodeFeaturesPlugins NodeSet OverTimeLimit Prolog PartitionName
PlugStackConfig PluginDir PowerAction PowerParameters PowerPlugin PrEpParameters PrEpPlugins PreemptExemptTime
PreemptMode PreemptParameters PreemptType PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall PriorityFlags
PriorityMaxAge PriorityParameters PrioritySiteFactorParameters PrioritySiteFactorPlugin PriorityType
PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc PriorityWeightFairShare PriorityWeightJobSize
PriorityWeightPartition PriorityWeightQOS PriorityWeightTRES PrivateData ProcTrackType PrologEpilogTimeout PrologFlags
PrologSlurmctld PrologTimeout PropagatePrioProcess PropagateResourceLimits PropagateResourceLimitsExcept RebootProgram
ReconfigFlags RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout ResvEpilog
ResvOverRun ResvProlog ReturnToService RoutePlugin SallocDefaultCommand SbcastParameters SchedulerParameters
SchedulerTimeSlice SchedulerType ScronParameters SelectType SelectTypeParameters SlurmSchedLogFile SlurmSchedLogLevel
SlurmUser SlurmctldAddr SlurmctldDebug SlurmctldHost SlurmctldHttpAuthParameters SlurmctldLogFile SlurmctldParameters
SlurmctldPidFile SlurmctldPort SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmctldTimeout
SlurmdDebug SlurmdHttpAuthParameters SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdPort SlurmdSpoolDir
SlurmdSyslogDebug SlurmdTimeout SlurmdUser SrunEpilog SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes
SuspendExcParts SuspendExcStates SuspendProgram SuspendRate SuspendTime SuspendTimeout SwitchParameters SwitchType
TCPTimeout TLSParameters TLSType TaskEpilog TaskPlugin TaskPluginParam TaskProlog TmpFS TopologyParam TopologyPlugin
TrackWCKey TreeWidth UnkillableStepProgram UnkillableStepTimeout UrlParserType UsePAM VSizeFactor WaitTime
X11Parameters
"""
_BY_LOWER_CASE: Final = {key.lower(): key for key in KEYS.split()}
CLOSE: Final = 0.85


def why_unknown(line: str, version: str) -> str:
    """What is wrong with the key of a line ``Key=Value``; empty where it is known, or may be one of another release."""
    key = line.partition("=")[0]
    if key.lower() in _BY_LOWER_CASE:
        return ""
    close = get_close_matches(key.lower(), _BY_LOWER_CASE, n=1, cutoff=CLOSE)
    if close:
        return f"slurmctld knows no {key} and would not start; did you mean {_BY_LOWER_CASE[close[0]]}?"
    if version == KEYS_OF:
        return f"slurmctld {version} knows no {key} and would not start; see 'man slurm.conf'"
    return ""
