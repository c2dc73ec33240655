"""The layers and images of the data centre."""

from __future__ import annotations

from dataclasses import dataclass

from lab.images.recipes import Copy, Layer, Verify

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENTRYPOINTS = ("login", "mariadb", "slurmctld", "slurmd", "slurmdbd", "slurmrestd")
_DIST = "/usr/lib/python3/dist-packages"

# Slurm's own ids, and the database's, are those of the images that the operator's makers publish.
_SLURM_USERS = """
groupadd -g 401 slurm && useradd -u 401 -g 401 -d /nonexistent -s /usr/sbin/nologin slurm
groupadd -g 999 mysql && useradd -u 999 -g 999 -d /var/lib/mysql -s /usr/sbin/nologin mysql
"""

# Users come from /var/lib/extrausers, which is mounted. A login session must not fail where the kernel's audit is out
# of a container's reach (pam_loginuid), and makes the home directory the first time. /etc/slurm is a mount: Debian's
# own files there would only be in the way.
_SLURM_SCRIPT = """
sed -i -E 's/^(passwd|group|shadow):.*/\\1: files extrausers/' /etc/nsswitch.conf
sed -i -E 's/^session +required +pam_loginuid.so/session optional pam_loginuid.so/' /etc/pam.d/sshd
pam-auth-update --package --enable mkhomedir
rm -rf /etc/slurm && mkdir -p /etc/slurm /etc/ssh/authorized_keys.d /home
install -d -o slurm -g slurm /var/spool/slurmctld /run/slurmctld /run/slurmdbd
install -d /var/log/slurm /var/spool/slurmd /run/slurm /run/sshd
install -d -o mysql -g mysql /var/lib/mysql /run/mysqld
rm -f /etc/ssh/ssh_host_*
sed -i -E 's/^/# /' /etc/motd || true
"""

SLURM = Layer(
    name="slurm",
    expected_seconds=120,
    megabytes=600,
    suite="forky",
    before=_SLURM_USERS,
    packages=(
        # Slurm
        "slurmctld", "slurmd", "slurmdbd", "slurmrestd", "slurm-client", "sackd", "slurm-wlm-basic-plugins",
        "slurm-wlm-jwt-plugin", "slurm-wlm-mysql-plugin",
        # the accounting database
        "mariadb-server-core", "mariadb-client-core",
        # users: SSH, accounts from files that can be mounted
        "openssh-server", "libnss-extrausers", "libpam-modules", "libpam-runtime",
        # what users and scripts expect to find
        "python3", "procps", "iproute2", "less", "vim-tiny", "busybox",
    ),
    script=_SLURM_SCRIPT,
    verify=(
        Verify(("slurmctld", "-V"), "26.05"),
        Verify(("slurmd", "-V"), "26.05"),
        Verify(("slurmrestd", "-d", "list"), "data_parser/v0.0.44"),
        Verify(("slurmrestd", "-d", "list"), "data_parser/v0.0.45"),
        Verify(("sh", "-c", "ls /usr/lib/*/slurm-wlm/job_submit_lua.so"), "job_submit_lua.so"),
        Verify(("sh", "-c", "ls /usr/lib/*/slurm-wlm/accounting_storage_mysql.so"), "accounting_storage_mysql.so"),
        Verify(("which", "sbatch", "srun", "salloc", "scontrol", "sacct", "sackd", "sshd", "slurmdbd"), "sackd"),
        Verify(("which", "mariadbd", "mariadb-install-db", "mariadb"), "mariadbd"),
        Verify(("grep", "mkhomedir", "/etc/pam.d/common-session"), "pam_mkhomedir.so"),
        Verify(("getent", "passwd", "slurm"), "slurm:x:401:401:"),
    ),
)  # fmt: skip

# Test programs of PyTorch, 90 MB of them.
_TORCH_UNWANTED = """
cat > /etc/dpkg/dpkg.cfg.d/sparewheel-torch <<end
path-exclude=/usr/lib/libtorch-test/*
path-exclude=/usr/lib/python3/dist-packages/torch/bin/test_*
end
"""

TORCH = Layer(
    name="torch",
    expected_seconds=180,
    megabytes=1700,
    below=(SLURM,),
    before=_TORCH_UNWANTED,
    packages=("python3-torch", "python3-wrapt"),
    verify=(Verify(("python3", "-c", "import torch; print(torch.distributed.is_gloo_available())"), "True"),),
)

PROGRAMS = Layer(
    name="entrypoints",
    expected_seconds=1,
    megabytes=1,
    copies=tuple(
        Copy(f"lab/images/entrypoints/{name}", f"/usr/local/bin/{name}-entrypoint", 0o755) for name in ENTRYPOINTS
    ),
)

TORCH_COMPAT = Layer(
    name="torch-compat",
    expected_seconds=1,
    megabytes=1,
    copies=(
        Copy("lab/images/torch_compat/tcpstore_without_libuv.py", f"{_DIST}/tcpstore_without_libuv.py"),
        Copy("lab/images/torch_compat/tcpstore_without_libuv.pth", f"{_DIST}/tcpstore_without_libuv.pth"),
    ),
)

# The controller, the agent and the operator stand-in run on a small Python of their own: they change often, and know
# no Slurm.
PYTHON = Layer(
    name="python",
    expected_seconds=90,
    megabytes=250,
    suite="bookworm",
    packages=("python3",),
    script="ln -s /usr/bin/python3 /usr/local/bin/python",
    verify=(Verify(("python", "-V"), "Python 3.11"),),
)

RUNTIME = Layer(
    name="runtime",
    expected_seconds=30,
    megabytes=150,
    below=(PYTHON,),
    requirements="requirements/image.txt",
    verify=(Verify(("python", "-c", "import asyncssh, httpx, msgspec, pydantic; print('ready')"), "ready"),),
)

_COMPILE = "python3 -m compileall -q --invalidation-mode unchecked-hash /opt/sparewheel"


def code(name: str, *packages: str) -> Layer:
    """A thin layer with packages of the checkout, compiled for the image's Python."""
    return Layer(
        name=name,
        expected_seconds=3,
        megabytes=10,
        below=(PYTHON, RUNTIME),
        copies=tuple(Copy(package, f"/opt/sparewheel/{package}") for package in packages),
        script=_COMPILE,
    )


PRODUCT = code("code-sparewheel", "sparewheel")
OPERATOR = code(
    "code-slinky",
    "lab/__init__.py",
    "lab/standins/__init__.py",
    "lab/standins/slinky",
    "sparewheel/__init__.py",
    "sparewheel/clock.py",
)


@dataclass(frozen=True)
class Image:
    """One image. The entry point gets a pod's `args`; `environment` is `NAME=value`."""

    name: str
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = (PATH,)
    user: str = ""


@dataclass(frozen=True)
class Archive:
    """One docker-archive: a layer that several of its images have is stored once."""

    name: str
    images: tuple[Image, ...]
    expected_seconds: float


def _slurm(name: str, *more: Layer, tag: str = "26.05") -> Image:
    return Image(f"sparewheel.local/{name}:{tag}", (SLURM, *more, PROGRAMS), (f"/usr/local/bin/{name}-entrypoint",))


_PYTHON_ENV = (PATH, "PYTHONPATH=/opt/sparewheel", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1")

ARCHIVES = (
    Archive(
        "slurm",
        (
            Image("sparewheel.local/base:26.05", (SLURM,), command=("sleep", "infinity")),
            _slurm("slurmctld"),
            _slurm("slurmdbd"),
            _slurm("slurmrestd"),
            _slurm("mariadb", tag="11"),
            _slurm("slurmd", TORCH, TORCH_COMPAT),
            _slurm("login", TORCH, TORCH_COMPAT),
        ),
        expected_seconds=10,
    ),
    Archive(
        "sparewheel",
        (
            Image(
                "sparewheel.local/sparewheel:dev",
                (PYTHON, RUNTIME, PRODUCT),
                command=("python", "-m", "sparewheel.cli"),
                environment=_PYTHON_ENV,
            ),
            Image(
                "sparewheel.local/slinky-operator:dev",
                (PYTHON, RUNTIME, OPERATOR),
                command=("python", "-m", "lab.standins.slinky"),
                environment=_PYTHON_ENV,
            ),
        ),
        expected_seconds=3,
    ),
)


def layers_of(archive: Archive) -> list[Layer]:
    """Its layers, each once, lowest first."""
    return list(dict.fromkeys(layer for image in archive.images for layer in image.layers))
