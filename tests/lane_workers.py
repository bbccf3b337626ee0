"""Processes that work on a run and can be killed: forked from one that has imported everything, so there at once.

`python -m tests.lane_workers RUN LEASE`: a line on standard input starts another, whose process id is printed; the end of the
input ends them all.
"""

import os
import signal
import sys
import time

import django


def main(run_id: int, lease: float) -> None:
    django.setup()
    from django.conf import settings
    from django.db import OperationalError

    from evaluation.runs import work
    from evaluation.runs.kind import RUNS
    from generation.engine.sweeping import sweep

    settings.MHB_LEASE_SECONDS = lease
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the dead
    pids = []
    for _line in sys.stdin:
        pid = os.fork()
        if not pid:
            while True:
                try:
                    sweep(RUNS)
                    work.work_on_run(run_id)
                except OperationalError as error:  # as the sweeper and the worker take it
                    sys.stderr.write(f"{error}\n")
                time.sleep(0.05)
        pids.append(pid)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
