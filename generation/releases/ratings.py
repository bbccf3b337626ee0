"""What physicians answered about the samples of a release: one row a review and question, under pseudonyms."""

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from generation.common.chunks import chunked
from generation.models import Release, ReleasedSample
from generation.releases.exporters.base import replacing
from generation.releases.exporters.programs.verify_release import COLUMNS, Agreement
from review.access.visibility import counted_reviews
from review.audit import trail
from review.models import ChainHead
from review.rules.state_machine import Phase

ANSWERS = {Phase.COMMIT.value: "blind", Phase.CONFIRM.value: "confirmed", Phase.DISCUSS.value: "discussed"}
Rating = dict[str, str]


def pseudonym(key: str, canary: str, physician: int) -> str:
    """A physician's name in one release: the same in all its versions, another in releases of another name."""
    return "rater-" + sha256(f"{key}\n{canary}\n{physician}".encode()).hexdigest()[:10]


def ratings(samples: Sequence[tuple[str, int, int]], canary: str) -> Iterator[list[Rating]]:
    """Of each (key, version, case) the rows: blind answers, and those that were confirmed or changed after seeing others'.

    Notes, evidence and wordings stay behind: they are free text.
    """
    secret = ChainHead.objects.values_list("key", flat=True).get(pk=trail.EVENTS)
    reviews: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    rows = counted_reviews().filter(case__in=[case for _key, _version, case in samples]).order_by("pk")
    columns = ("case_id", "physician_id", "physician__simulated", "role", "phase", "verdict", "answers")
    for case, *about in rows.values_list(*columns):
        reviews[case].append(tuple(about))
    for key, version, case in samples:
        found: list[Rating] = []
        for physician, simulated, role, phase, verdict, answers in reviews[case]:
            about = {
                "sample_id": key,
                "version": str(version),
                "rater": pseudonym(secret, canary, physician),
                "role": role,
                "answer": ANSWERS[phase],
                "simulated": "true" if simulated else "false",
            }
            found += ({**about, **told} for told in _values(verdict, answers))
        yield found


def _values(verdict: str, answers: dict[str, Any]) -> Iterator[Rating]:
    yield {"rubric": "", "question": "verdict", "value": verdict}
    for question, answer in sorted(answers.get("questions", {}).items()):
        if value := answer.get("value"):
            yield {"rubric": "", "question": question, "value": str(value)}
    for rubric, finding in sorted(answers.get("rubrics", {}).items()):
        for question, name in (("rubric", "value"), ("severity", "severity")):
            if value := finding.get(name):
                yield {"rubric": rubric, "question": question, "value": str(value)}
    if reason := answers.get("reason_code"):
        yield {"rubric": "", "question": "reason", "value": str(reason)}


def agreement(samples: Sequence[tuple[str, int, int]], canary: str) -> list[dict[str, Any]]:
    """How far the blind answers about these samples agree, as `verify_release.py` computes it from the ratings."""
    found = Agreement()
    for part in chunked(iter(samples)):
        for rows in ratings(part, canary):
            found.add(rows)
    return found.lines()


def write(release: Release, split: str, folder: Path) -> Path:
    """Write `ratings.csv`, in the order of the samples."""
    rows = ReleasedSample.objects.filter(release=release, split=split).order_by("position")
    samples = rows.values_list("key", "version__number", "version__case")
    path = folder / "ratings.csv"
    with replacing(path) as [temporary], temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for part in chunked(samples.iterator(chunk_size=500)):
            for found in ratings(part, release.canary):
                writer.writerows(found)
    return path
