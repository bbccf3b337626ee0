"""The checksums of exported files, anchored in the audit trail: which files this site wrote."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from review.audit import acts
from review.audit.trail import record_person, recording_events
from review.models import PersonEvent

CHECKSUM = r"^[0-9a-f]{64}$"
SUMS = "SHA256SUMS"  # its own checksum stands for all files of an export


@dataclass(frozen=True, slots=True)
class Exported:
    """Files that this site wrote. `what`: the run or release."""

    what: str
    at: datetime


def checksum_of(folder: Path) -> str:
    """The checksum that stands for all files in a folder."""
    return sha256((folder / SUMS).read_bytes()).hexdigest()


def anchor(folder: Path, what: str) -> None:
    """Record once that the site wrote these files."""
    checksum = checksum_of(folder)
    if find(checksum) is None:
        with recording_events():
            record_person(None, PersonEvent.Kind.EXPORTED, acts.acting_account(), what=what, sha256=checksum)


def find(checksum: str) -> Exported | None:
    """What this site wrote with this checksum; None if nothing."""
    events = PersonEvent.objects.filter(kind=PersonEvent.Kind.EXPORTED, data__sha256=checksum)
    event = events.order_by("pk").first()
    if event is None:
        return None
    return Exported(event.data["what"], event.at)


def faults(folder: Path, what: str) -> list[str]:
    """A fault if this site has written `what`, but never these files."""
    written = PersonEvent.objects.filter(kind=PersonEvent.Kind.EXPORTED, data__what=what)
    if find(checksum_of(folder)) is not None or not written.exists():
        return []
    return [f"{SUMS}: this site has written {what}, but never with these checksums"]
