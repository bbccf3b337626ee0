"""Processor time of a server: all processes of its group, from Linux's scheduler."""

import os
from pathlib import Path

PROC = Path("/proc")


def milliseconds(group: int) -> float:
    """Processor time that the threads of a process group have used so far; 0 without Linux."""
    nanoseconds = 0
    for process in PROC.glob("[0-9]*"):
        if _group(process) != group:
            continue
        for thread in process.glob("task/*/schedstat"):
            try:
                nanoseconds += int(thread.read_text().split()[0])
            except (OSError, IndexError):  # the thread has just ended
                continue
    return nanoseconds / 1e6


def total_milliseconds(group: int) -> float:
    """The same with threads that have ended, in steps of the kernel's clock (10 ms)."""
    ticks = 0
    for process in PROC.glob("[0-9]*"):
        if _group(process) == group:
            ticks += sum(map(int, _fields(process)[11:13]))
    return ticks * 1000 / os.sysconf("SC_CLK_TCK")


def _group(process: Path) -> int | None:
    fields = _fields(process)
    return int(fields[2]) if fields else None


def _fields(process: Path) -> list[str]:
    """The fields of /proc/PID/stat from the third on; none if the process has ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
