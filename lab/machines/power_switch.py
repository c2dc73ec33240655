"""The power switch, like a BMC: an SSH server that takes `on|off|reset|status HOST` and nothing else."""

import asyncio

import asyncssh

from lab.machines.inventory import MACHINE_IP, Host, load_inventory
from lab.machines.power import Power
from lab.paths import Paths, paths_from_environment

USER = "power"
USAGE = "usage: on|off|reset|status HOST"


class Switch:
    """Answers one session: exit status 0 and the state, or non-zero and what was wrong on standard error."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.power = Power(paths)

    def act(self, command: str) -> str:
        """Carry out a command; ValueError says what was wrong with it."""
        words = command.split()
        if len(words) != 2 or words[0] not in ("on", "off", "reset", "status"):
            raise ValueError(USAGE)
        verb, host = words[0], load_inventory(self.paths.state).host(words[1])
        if verb != "status":
            verbs = {"on": self.power.on, "off": self.power.off, "reset": self.power.reset}
            verbs[verb](host)
        return self.state(host)

    def state(self, host: Host) -> str:
        """`on` or `off`."""
        return "on" if self.power.is_on(host) else "off"

    async def serve(self, process: asyncssh.SSHServerProcess[str]) -> None:
        """One session."""
        try:
            answer = await asyncio.to_thread(self.act, process.command or "")
        except (ValueError, RuntimeError, OSError) as error:
            process.stderr.write(f"{error}\n")
            process.exit(1)
            return
        process.stdout.write(f"{answer}\n")
        process.exit(0)


class OneUser(asyncssh.SSHServer):
    """Only the user `power`, only with the key."""

    def begin_auth(self, username: str) -> bool:
        """Everybody must prove themselves."""
        del username
        return True

    def password_auth_supported(self) -> bool:
        """No passwords."""
        return False


async def main() -> None:
    """Serve until killed."""
    paths = paths_from_environment()
    switch = Switch(paths)
    allowed = asyncssh.import_authorized_keys((paths.ssh / "power_ed25519.pub").read_text())

    def keys_of(username: str) -> asyncssh.SSHAuthorizedKeys:
        return allowed if username == USER else asyncssh.import_authorized_keys("")

    class Server(OneUser):
        """Keys by user."""

        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            self.connection = conn

        def begin_auth(self, username: str) -> bool:
            self.connection.set_authorized_keys(keys_of(username))
            return True

    server = await asyncssh.create_server(
        Server,
        MACHINE_IP,
        load_inventory(paths.state).power_port,
        server_host_keys=[str(paths.ssh / "power_host_ed25519")],
        process_factory=switch.serve,
        allow_scp=False,
        agent_forwarding=False,
        x11_forwarding=False,
        allow_pty=False,
    )
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(main())
