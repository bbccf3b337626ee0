"""Whether an error means that a disk is full."""

import errno

from django.db import Error

DISK_FULL = "53100"  # PostgreSQL's SQLSTATE


def is_disk_full(error: BaseException | None) -> bool:
    """Whether a file or a row found no room: on the disk, in a quota, or in the database."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, Error) and (
        getattr(error.__cause__, "sqlstate", "") == DISK_FULL or "disk is full" in str(error)
    )
