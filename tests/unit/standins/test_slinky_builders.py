"""The stand-in makes the objects that the real operator was seen to make."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest

from lab.standins.slinky.builders import accounting, confs, controller, login, restapi, ssh, token
from lab.standins.slinky.schema import crds
from tests.unit.standins import slinky_objects as given

Obj = dict[str, Any]
HASHES = {"slinky.slurm.net/slurm-key-hash": "k"}


def conf_sections(text: str) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    at: list[str] = []
    for line in text.splitlines():
        if line.startswith("### "):
            at = out.setdefault(line.strip("# "), [])
        elif line != "#":
            at.append(line)
    return out


def test_slurm_conf_has_the_operators_sections_in_order_and_extra_conf_last() -> None:
    text = confs.slurm_conf(given.controller(), [given.nodeset()], None)
    sections = conf_sections(text)
    assert list(sections) == [
        "GENERAL",
        "LOGGING",
        "PLUGINS & PARAMETERS",
        "ACCOUNTING",
        "NODESET & PARTITION",
        "EXTRA CONFIG",
    ]
    assert "ClusterName=slurm_slurm" in sections["GENERAL"]
    host = "SlurmctldHost=slurm-controller-0(slurm-controller-0.slurm-controller-internal.slurm)"
    assert host in sections["GENERAL"]
    assert "SlurmctldAddr=slurm-controller.slurm" in sections["GENERAL"]
    assert "StateSaveLocation=/var/spool/slurmctld/slurm_slurm" in sections["GENERAL"]
    assert "SlurmctldParameters=enable_configless,reconfig_on_restart" in sections["PLUGINS & PARAMETERS"]
    assert sections["ACCOUNTING"] == ["AccountingStorageType=accounting_storage/none"]
    assert sections["NODESET & PARTITION"] == ["NodeSet=gpu Feature=gpu", "PartitionName=gpu Nodes=gpu "]
    assert sections["EXTRA CONFIG"] == ["KillWait=120", "ReturnToService=1"]


def test_a_second_pool_appears_and_a_pool_without_partition_has_none() -> None:
    small = given.nodeset(partition={"enabled": False})
    small["metadata"]["name"] = "cpu"
    lines = conf_sections(confs.slurm_conf(given.controller(), [given.nodeset(), small], None))
    assert lines["NODESET & PARTITION"] == [
        "NodeSet=cpu Feature=cpu",
        "NodeSet=gpu Feature=gpu",
        "PartitionName=gpu Nodes=gpu ",
    ]


def test_slurm_conf_names_slurmdbd_when_there_is_accounting() -> None:
    lines = conf_sections(confs.slurm_conf(given.controller(), [], given.accounting()))["ACCOUNTING"]
    assert lines == [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=slurm-accounting",
        "AccountingStoragePort=6819",
    ]


def test_parameters_given_again_keep_the_operators_own_items() -> None:
    extra = "SlurmctldParameters=Enable_Expedited_Requeue,enable_configless\nKillWait=60"
    lines = conf_sections(confs.slurm_conf(given.controller(extraConf=extra), [], None))["MERGED CONFIG"]
    assert lines == ["SlurmctldParameters=enable_configless,enable_expedited_requeue,reconfig_on_restart"]


def test_controller_stateful_set() -> None:
    made = controller.stateful_set(given.controller(), HASHES)
    assert made["metadata"]["name"] == "slurm-controller"
    assert made["spec"]["serviceName"] == "slurm-controller-internal"
    template = made["spec"]["template"]
    assert template["metadata"]["annotations"] == {
        "kubectl.kubernetes.io/default-container": "slurmctld",
        "slinky.slurm.net/slurm-key-hash": "k",
    }
    assert template["metadata"]["labels"] == {
        "app.kubernetes.io/component": "controller",
        "app.kubernetes.io/instance": "slurm",
        "app.kubernetes.io/name": "slurmctld",
    }
    pod = template["spec"]
    assert pod["securityContext"] == {"fsGroup": 401, "runAsGroup": 401, "runAsNonRoot": True, "runAsUser": 401}
    (main,) = pod["containers"]
    assert main["image"] == "x/slurmctld:26.05"
    assert main["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "slurmctld", "scheme": "HTTP"}
    assert main["startupProbe"]["failureThreshold"] == 6
    mounts = {one["name"]: one["mountPath"] for one in main["volumeMounts"]}
    assert mounts["statesave"] == "/var/spool/slurmctld/slurm_slurm"
    assert mounts["slurm-authsocket"] == "/run/slurmctld"
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes["statesave"] == {"name": "statesave", "emptyDir": {}}
    etc = volumes["slurm-etc"]["projected"]
    assert etc["defaultMode"] == 392
    assert [next(iter(one)) for one in etc["sources"]] == ["configMap", "secret", "secret", "configMap"]
    assert etc["sources"][2]["secret"]["items"] == [{"key": "jwt_hs256.key", "path": "jwt.key"}]
    assert etc["sources"][3]["configMap"]["name"] == "slurm-extra"
    (logfile,) = pod["initContainers"]
    assert logfile["name"] == "logfile"
    assert logfile["restartPolicy"] == "Always"
    assert logfile["env"] == [{"name": "SOCKET", "value": "/var/log/slurm/slurmctld.log"}]


def test_state_on_a_claim_and_in_place_reconfigure() -> None:
    claimed = controller.stateful_set(
        given.controller(persistence={"enabled": True, "existingClaim": "state"}, inplaceReconfigure=True), {}
    )
    pod = claimed["spec"]["template"]["spec"]
    assert {"name": "statesave", "persistentVolumeClaim": {"claimName": "state"}} in pod["volumes"]
    assert [one["name"] for one in pod["initContainers"]] == ["reconfigure", "logfile"]
    assert "scontrol reconfigure" in pod["initContainers"][0]["command"][2]
    templated = controller.stateful_set(given.controller(persistence={"storageClassName": "fast"}), {})
    (claim,) = templated["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "statesave"
    assert claim["spec"] == {"storageClassName": "fast"}


def test_controller_services() -> None:
    public, internal = controller.services(given.controller())
    assert public["metadata"]["name"] == "slurm-controller"
    assert public["spec"]["selector"]["controller.slinky.slurm.net/active"] == "true"
    assert internal["metadata"]["name"] == "slurm-controller-internal"
    assert internal["spec"]["publishNotReadyAddresses"] is True
    assert internal["spec"]["clusterIP"] == "None"
    assert "controller.slinky.slurm.net/active" not in internal["spec"]["selector"]


def test_user_template_is_laid_over_by_name() -> None:
    made = controller.stateful_set(
        given.controller(
            slurmctld={"image": "i", "volumeMounts": [{"name": "users", "mountPath": "/var/lib/extrausers"}]},
            template={
                "metadata": {"labels": {"team": "a", "app.kubernetes.io/name": "mine"}},
                "spec": {
                    "nodeSelector": {"role": "system"},
                    "volumes": [{"name": "users", "configMap": {"name": "slurm-users"}}],
                    "terminationGracePeriodSeconds": 150,
                },
            },
        ),
        {},
    )
    template = made["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "slurmctld"
    pod = template["spec"]
    assert pod["nodeSelector"] == {"role": "system"}
    assert pod["terminationGracePeriodSeconds"] == 150
    assert {"name": "users", "configMap": {"name": "slurm-users"}} in pod["volumes"]
    assert len(pod["containers"][0]["volumeMounts"]) == 6
    assert len(pod["volumes"]) == 6


def test_restapi() -> None:
    made = restapi.deployment(given.restapi(), given.controller())
    pod = made["spec"]["template"]["spec"]
    (main,) = pod["containers"]
    assert main["args"] == ["-s", "openapi/slurmctld", "0.0.0.0:6820"]
    assert {"name": "SLURM_JWT", "value": "daemon"} in main["env"]
    assert pod["securityContext"]["runAsUser"] == 65534
    assert pod["volumes"][0]["projected"]["sources"][0]["configMap"] == {
        "name": "slurm-config",
        "items": [{"key": "slurm.conf", "path": "slurm.conf"}],
    }
    service = restapi.service(given.restapi())
    assert (service["metadata"]["name"], service["spec"]["ports"][0]["port"]) == ("slurm-restapi", 6820)


def test_accounting_keeps_the_password_in_a_secret() -> None:
    secret = accounting.config_secret(given.accounting(), "pw")
    text = base64.b64decode(secret["data"]["slurmdbd.conf"]).decode()
    assert secret["metadata"]["name"] == "slurm-accounting"
    for line in ("StorageHost=mariadb", "StoragePort=3306", "StoragePass=pw", "DbdHost=slurm-accounting-0"):
        assert line in text.splitlines()
    made = accounting.stateful_set(given.accounting(), {})
    assert made["spec"]["serviceName"] == "slurm-accounting"
    assert accounting.service(given.accounting())["spec"]["ports"][0]["port"] == 6819


def test_login() -> None:
    made = login.deployment(given.loginset(), given.controller(), {"slinky.slurm.net/sshd-conf-hash": "h"})
    pod = made["spec"]["template"]["spec"]
    (main,) = pod["containers"]
    assert main["env"] == [{"name": "SACKD_OPTIONS", "value": "--conf-server slurm-controller.slurm:6817"}]
    assert main["readinessProbe"]["exec"]["command"] == ["test", "-S", "/run/slurm/sack.socket"]
    assert pod["dnsConfig"]["searches"] == ["slurm-workers-slurm.slurm.svc.cluster.local"]
    assert [one["name"] for one in pod["volumes"]] == [
        "slurm-etc",
        "sackd-dir",
        "slurm-config",
        "ssh-host-keys",
        "ssh-config",
        "sssd-conf",
    ]
    mounts = {one["mountPath"]: one.get("subPath") for one in main["volumeMounts"]}
    assert mounts["/etc/ssh/ssh_host_ed25519_key.pub"] == "ssh_host_ed25519_key.pub"
    assert mounts["/root/.ssh/authorized_keys"] == "authorized_keys"
    assert pod["initContainers"][0]["name"] == "initconf"
    assert login.service(given.loginset())["metadata"]["name"] == "login"


def test_sshd_config_ends_with_the_users_lines() -> None:
    made = ssh.config_map(
        given.loginset(extraSshdConfig="AuthorizedKeysFile /etc/ssh/authorized_keys.d/%u"), "LoginSet", {}
    )
    assert made["metadata"]["name"] == "login-ssh-config"
    assert made["data"]["sshd_config"].splitlines()[-1] == "AuthorizedKeysFile /etc/ssh/authorized_keys.d/%u"
    assert "Subsystem sftp internal-sftp" in made["data"]["sshd_config"]


def test_token_secret_and_renewal() -> None:
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    key = b"0123456789abcdef0123456789abcdef"
    made = token.secret(given.token(), key, now)
    assert made["metadata"]["name"] == "sparewheel-jwt-slurm"
    text = base64.b64decode(made["data"]["SLURM_JWT"]).decode()
    claims = jwt.decode(text, key, algorithms=["HS256"], options={"verify_exp": False, "verify_nbf": False})
    assert (claims["sun"], claims["exp"] - claims["iat"]) == ("slurm", 3600)
    assert token.renew_at(now, now + timedelta(hours=1)) == now + timedelta(minutes=48)


@pytest.mark.parametrize(("text", "seconds"), [("1h", 3600), ("1h30m", 5400), ("90s", 90), (None, 3600)])
def test_durations(text: str | None, seconds: float) -> None:
    assert token.duration_seconds(text) == seconds


def test_a_wrong_duration_is_refused() -> None:
    with pytest.raises(ValueError, match="1h or 30m"):
        token.duration_seconds("an hour")


@pytest.mark.parametrize("kind", list(crds.names.KINDS))
def test_committed_definitions_are_those_of_the_table(kind: str) -> None:
    file = crds.OUT / f"{crds.names.KINDS[kind]}.yaml"
    assert file.read_text(encoding="utf-8") == crds.render(kind)
