"""A second host for benches: a network namespace, which needs root on Linux."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bench import servers


@dataclass(frozen=True, slots=True)
class Host:
    """Where the second half of the processes runs: the other's address, and how to start there."""

    address: str
    prefix: tuple[str, ...] = ()
    link: str = ""

    def connect(self, connected: bool) -> None:
        _ip("link", "set", self.link, "up" if connected else "down")


def _ip(*arguments: str) -> None:
    process = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if process.returncode:
        raise servers.Missing(f"no network namespaces here ({process.stderr.strip()})")


@contextmanager
def second_host() -> Iterator[Host]:
    """A network namespace joined to this one by a cable. Raises servers.Missing.

    Its addresses are of the block that is reserved for benchmarks (RFC 2544).
    """
    if not shutil.which("ip"):
        raise servers.Missing("no network namespaces here (no ip)")
    name = f"mhb{os.getpid()}"
    inside = ("netns", "exec", name, "ip")
    with ExitStack() as stack:
        _ip("netns", "add", name)
        stack.callback(_ip, "netns", "del", name)  # and with it both ends of the cable
        _ip("link", "add", name, "type", "veth", "peer", "name", f"{name}b", "netns", name)
        for prefix, address, end in (((), "198.18.7.1/30", name), (inside, "198.18.7.2/30", f"{name}b")):
            _ip(*prefix, "addr", "add", address, "dev", end)
            _ip(*prefix, "link", "set", end, "up")
        yield Host("198.18.7.1", ("ip", "netns", "exec", name), name)
