"""A typed client of an MHB site: launch, wait, read the report, stream a release."""

from mhb_client import errors
from mhb_client.client import Batch, Client, Job, Run
from mhb_client.frames import frame

__all__ = ["Batch", "Client", "Job", "Run", "errors", "frame"]
