"""Where the demo's processes run: in network namespaces (as root), or all on loopback."""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ....testbed.ecmp import ROUTER, SERVICE, EcmpNetwork, clear
from ....testbed.namespaces import enter, inside
from ...demo.processes import end_with_parent, free_http_port

T = TypeVar("T")
PREFIX = "hopscope-cluster"
_LIBC = ctypes.CDLL(None)
UNPRIVILEGED = "nobody"
HUB = "hub"
"""The part with the servers and the demo itself."""
FABRIC = "fabric"
_PORTS = range(10_000, 32_000)
"""Below the range for outgoing connections, which could take a server's port before it listens."""


def _is_open(program: Path) -> bool:
    """Whether every user can run a program: those of root's own environments are in its home folder."""
    way = (program, *program.parents, *program.resolve().parents)
    return all(each.stat().st_mode & stat.S_IXOTH for each in way)


class Place(ABC):
    """Runs processes in parts: `hub`, `fabric`, and one part per member."""

    title: str
    hub: str
    """Address at which servers listen."""

    def __init__(self) -> None:
        self.using: list[str] = []
        """Members that get reports, in order of their names."""
        self._given: set[int] = set()
        """Ports that `free_ports` returned, on which a server may soon listen."""

    def start(
        self, words: Sequence[str], log: Path, part: str = HUB, *, server: bool = False, **pipes: Any
    ) -> subprocess.Popen[str]:
        """Start a program in a session of its own, with its output in `log`; it ends with the demo.

        `server`: as an unprivileged user, if this is root and others may run the program. Only the main
        thread may call it, since the kernel kills the program when the thread that started it ends.
        """
        is_unprivileged = server and os.geteuid() == 0 and _is_open(Path(words[0]))
        user = pwd.getpwnam(UNPRIVILEGED) if is_unprivileged else None

        def prepare() -> None:
            self.enter(part)
            if user is not None:
                os.setgroups([])
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)
            end_with_parent(signal.SIGKILL if server else signal.SIGTERM)

        with log.open("ab") as output:
            given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output} | pipes
            process: subprocess.Popen[str] = subprocess.Popen(
                words, text=True, start_new_session=True, preexec_fn=prepare, cwd="/", **given
            )
        return process

    def own(self, folder: Path) -> None:
        """Make a folder to which servers can write."""
        folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(folder, UNPRIVILEGED, pwd.getpwnam(UNPRIVILEGED).pw_gid)

    def free_ports(self, count: int, part: str = HUB, *, udp: bool = False) -> list[int]:
        """Ports that are free in a part, and that no other call returns."""

        def look() -> list[int]:
            kind = socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
            found: list[int] = []
            while len(found) < count:
                port = secrets.choice(_PORTS)
                with suppress(OSError), socket.socket(socket.AF_INET, kind) as probe:
                    probe.bind(("", port))
                    if port not in self._given:
                        self._given.add(port)
                        found.append(port)
            return found

        return self.inside(part, look)

    def get(self, part: str, port: int, path: str, seconds: float = 5.0) -> tuple[int, Any]:
        """Status and JSON of a GET to 127.0.0.1 in a part. Raises OSError if there is no answer."""

        def ask() -> tuple[int, Any]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read())
            except http.client.HTTPException as error:
                raise OSError(f"no answer: {type(error).__name__}") from error
            finally:
                connection.close()

        return self.inside(part, ask)

    @abstractmethod
    def create(self, members: Sequence[str]) -> None:
        """Make the parts, and move the demo itself to the hub."""

    @abstractmethod
    def add(self, member: str) -> None:
        """Add a member."""

    @abstractmethod
    def enter(self, part: str) -> None:
        """Move the calling thread, or a starting process, to a part."""

    @abstractmethod
    def inside(self, part: str, work: Callable[[], T]) -> T:
        """Run `work` in a part."""

    @abstractmethod
    def listen(self, member: str) -> tuple[str, int]:
        """The address on which a member receives reports, the same at every call."""

    @abstractmethod
    def page(self, member: str, port: int) -> str:
        """Address, for a browser on this machine, of a page at 127.0.0.1 in a part."""

    @abstractmethod
    def use(self, members: Collection[str]) -> None:
        """Send reports to these members."""

    @abstractmethod
    def fabric(self) -> dict[str, Any]:
        """How the fabric sends: `source`, the first address of its switches; `to`, addresses of members."""

    def follow(self, send_to: Callable[[dict[str, tuple[str, int]]], object]) -> None:
        """Report every change to a fabric that itself chooses members."""
        return

    def command(self, part: str) -> str:
        """Prefix of a command line to run by hand in a part."""
        return ""

    def remove(self) -> None:
        """Remove everything."""
        return


class Namespaces(Place):
    """A router with resilient ECMP, and a namespace for each member."""

    title = "network namespaces, a router with resilient ECMP"
    PORT = 32766

    def __init__(self) -> None:
        super().__init__()
        clear(PREFIX, [str(pid) for pid in _processes()])
        self.network = EcmpNetwork(f"{PREFIX}-{os.getpid()}", [])
        self.hub = ROUTER
        self._home = Path("/proc/self/ns/net").open("rb")  # noqa: SIM115 (of the whole run)
        self._relays: list[socket.socket] = []

    def create(self, members: Sequence[str]) -> None:
        """Make namespaces, and a socket for the page of each member."""
        self.network.create()
        for member in members:
            self.add(member)
        # sockets of pages belong to the machine; everything opened from now on belongs to the hub
        self._pages = [_page_socket() for _ in members]
        self.enter(HUB)

    def add(self, member: str) -> None:
        """Add a namespace."""
        self.network.add(member)

    def enter(self, part: str) -> None:
        """Enter the namespace by setns(2)."""
        enter(self.network.full("router" if part == HUB else part))

    def inside(self, part: str, work: Callable[[], T]) -> T:
        """Run `work` in a thread of its own, which enters the namespace."""
        return work() if part == HUB else inside(self.network.full(part), work)

    def listen(self, member: str) -> tuple[str, int]:
        """The address that all members share."""
        return SERVICE, self.PORT

    def page(self, member: str, port: int) -> str:
        """The address of a relay on this machine."""
        if not self._pages:
            return f"ip netns exec {self.network.full(member)} curl http://127.0.0.1:{port}"
        listener = self._pages.pop(0)
        self._relays.append(listener)
        threading.Thread(target=self._relay, args=(listener, member, port), daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    def use(self, members: Collection[str]) -> None:
        """Make these members the next hops of the group."""
        self.network.use(members)
        self.using = sorted(members)

    def fabric(self) -> dict[str, Any]:
        """All switches send to one address."""
        return {"source": "198.19.0.1", "to": {"service": [SERVICE, self.PORT]}}

    def command(self, part: str) -> str:
        """Prefix for ip(8)."""
        return f"ip netns exec {self.network.full(part)} "

    def remove(self) -> None:
        """Delete the namespaces, and end all processes in them."""
        for listener in self._relays:
            listener.close()
        self.network.remove()
        with suppress(OSError):
            _LIBC.setns(self._home.fileno(), 0)
        self._home.close()

    def _relay(self, listener: socket.socket, member: str, port: int) -> None:
        """Relay connections from a browser on this machine to the page in the namespace."""

        def connect() -> socket.socket:
            return socket.create_connection(("127.0.0.1", port), 5)

        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = self.inside(member, connect)
            except OSError:
                near.close()
                continue
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


class Loopback(Place):
    """Everything on 127.0.0.1; the fabric chooses a switch's member by rendezvous hashing of its address."""

    title = "loopback ports, switches choose by a hash (as root: network namespaces and ECMP)"

    def __init__(self) -> None:
        super().__init__()
        self.hub = "127.0.0.1"
        self._ports: dict[str, int] = {}
        self._send_to: Callable[[dict[str, tuple[str, int]]], object] = lambda to: None

    def create(self, members: Sequence[str]) -> None:
        """Choose ports."""
        for member in members:
            self.add(member)

    def add(self, member: str) -> None:
        """Choose a port."""
        self._ports[member] = self.free_ports(1, udp=True)[0]

    def enter(self, part: str) -> None:
        """Nothing to enter: all parts are the same."""

    def inside(self, part: str, work: Callable[[], T]) -> T:
        """Nothing to enter: all parts are the same."""
        return work()

    def listen(self, member: str) -> tuple[str, int]:
        """Address with the member's own port."""
        return "127.0.0.1", self._ports[member]

    def page(self, member: str, port: int) -> str:
        """Address with the member's own port."""
        return f"http://127.0.0.1:{port}"

    def use(self, members: Collection[str]) -> None:
        """Have the fabric send to these members."""
        self.using = sorted(members)
        self._send_to({member: self.listen(member) for member in self.using})

    def follow(self, send_to: Callable[[dict[str, tuple[str, int]]], object]) -> None:
        """Call `send_to` now and at every change."""
        self._send_to = send_to
        self.use(self.using)

    def fabric(self) -> dict[str, Any]:
        """The fabric chooses members itself."""
        return {"source": "127.0.1.1", "to": {}}


def choose() -> Place:
    """Namespaces for root if available, otherwise loopback."""
    if os.geteuid() == 0 and shutil.which("ip"):
        return Namespaces()
    return Loopback()


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _page_socket() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", free_http_port(8080)))
    listener.listen(64)
    return listener


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)
