"""A worker process for tests to kill: `python -m tests.lane_workers RUN LEASE`."""

import sys
import time

from django.conf import settings
from django.db import OperationalError

from evaluation.runs import work
from evaluation.runs.kind import RUNS
from generation.engine.sweeping import sweep


def main(run_id: int, lease: float) -> None:
    settings.MHB_LEASE_SECONDS, settings.MHB_LANES = lease, 2
    while True:
        try:
            sweep(RUNS)
            work.work_on_run(run_id)
        except OperationalError as error:  # survived, as by the real sweeper and worker
            sys.stderr.write(f"{error}\n")
        time.sleep(0.05)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
