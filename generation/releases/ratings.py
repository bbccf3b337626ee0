"""What physicians answered about the samples of a release, under pseudonyms: one row a review and question, one a highlight."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from generation.common.chunks import chunked
from generation.models import Release, ReleasedSample, Rubric
from generation.releases.exporters.base import replacing
from generation.releases.exporters.csv_ import spreadsheet_safe
from generation.releases.exporters.programs.verify_release import COLUMNS, Agreement, by_sample
from review.access.visibility import counted_reviews
from review.audit import trail
from review.models import ChainHead
from review.rules.state_machine import Phase

ANSWERS = {Phase.COMMIT.value: "blind", Phase.CONFIRM.value: "confirmed", Phase.DISCUSS.value: "discussed"}
HIGHLIGHT_COLUMNS = (
    *("sample_id", "version", "rater", "role", "answer", "simulated"),
    *("look", "label", "passage", "start", "end", "quote"),
)
Rating = dict[str, str]
Sampled = tuple[str, int, int]  # key, version, case


def pseudonym(key: str, canary: str, physician: int) -> str:
    """A physician's name in one release: the same in all its versions, another in releases of another name."""
    return "rater-" + sha256(f"{key}\n{canary}\n{physician}".encode()).hexdigest()[:10]


def _reviews(samples: Sequence[Sampled], canary: str) -> Iterator[tuple[int, Rating, str, dict[str, Any]]]:
    """Of each sample the reviews: its case, what a row says of who gave it, the verdict and the stored answers."""
    secret = ChainHead.objects.values_list("key", flat=True).get(pk=trail.EVENTS)
    reviews: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    rows = counted_reviews().filter(case__in=[case for _key, _version, case in samples]).order_by("pk")
    columns = ("case_id", "physician_id", "physician__simulated", "role", "phase", "verdict", "answers")
    for case, *about in rows.values_list(*columns):
        reviews[case].append(tuple(about))
    for key, version, case in samples:
        for physician, simulated, role, phase, verdict, answers in reviews[case]:
            about = {
                "sample_id": key,
                "version": str(version),
                "rater": pseudonym(secret, canary, physician),
                "role": role,
                "answer": ANSWERS[phase],
                "simulated": "true" if simulated else "false",
            }
            yield case, about, verdict, answers


def ratings(samples: Sequence[Sampled], canary: str) -> Iterator[Rating]:
    """Blind answers, and those that were confirmed or changed after seeing others', sample by sample.

    Notes, evidence and wordings stay behind: they are free text.
    """
    for _case, about, verdict, answers in _reviews(samples, canary):
        for told in _values(verdict, answers):
            yield {**about, **told}


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


def agreement(samples: Sequence[Sampled], canary: str) -> list[dict[str, Any]]:
    """How far the blind answers about these samples agree, as `verify_release.py` computes it from the ratings."""
    found = Agreement()
    for part in chunked(iter(samples)):
        for rows in by_sample(ratings(part, canary)):
            found.add(rows)
    return found.lines()


def lines(release: Release, split: str) -> Iterator[str]:
    """`ratings.csv`, in the order of the samples, in pieces."""
    yield from _table(COLUMNS, (_with_polarity(part, release.canary) for part in _parts(release, split)))


def highlight_lines(release: Release, split: str, *, quoted: bool = True) -> Iterator[str]:
    """`highlights.csv`, likewise. `quoted`: with the words themselves, which are the text of a source."""
    yield from _table(HIGHLIGHT_COLUMNS, (_highlights(part, release.canary, quoted) for part in _parts(release, split)))


def write(release: Release, split: str, folder: Path, *, quoted: bool = True) -> list[Path]:
    """Write `ratings.csv` and `highlights.csv`."""
    paths = [folder / "ratings.csv", folder / "highlights.csv"]
    tables = (lines(release, split), highlight_lines(release, split, quoted=quoted))
    with replacing(*paths) as unfinished:
        for temporary, table in zip(unfinished, tables, strict=True):
            with temporary.open("w", encoding="utf-8", newline="") as file:
                file.writelines(table)
    return paths


def _parts(release: Release, split: str) -> Iterator[list[Sampled]]:
    rows = ReleasedSample.objects.filter(release=release, split=split).order_by("position")
    yield from chunked(rows.values_list("key", "version__number", "version__case").iterator(chunk_size=500))


def _table(columns: Sequence[str], parts: Iterable[Iterable[Rating]]) -> Iterator[str]:
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    for part in parts:
        writer.writerows(part)
        yield file.getvalue()
        file.seek(0)
        file.truncate()
    yield file.getvalue()


def _with_polarity(samples: Sequence[Sampled], canary: str) -> Iterator[Rating]:
    """The ratings; those of a rubric with its polarity."""
    found = list(ratings(samples, canary))
    case_of = {key: case for key, _version, case in samples}
    cases = {case_of[rating["sample_id"]] for rating in found if rating["rubric"]}
    rubrics = Rubric.objects.filter(version__case__in=cases).exclude(polarity="").order_by()
    told = {(case, key): polarity for case, key, polarity in rubrics.values_list("version__case", "key", "polarity")}
    for rating in found:
        yield {**rating, "polarity": told.get((case_of[rating["sample_id"]], rating["rubric"]), "")}


def _highlights(samples: Sequence[Sampled], canary: str, quoted: bool) -> Iterator[Rating]:
    for _case, about, _verdict, answers in _reviews(samples, canary):
        for each in answers.get("highlights", ()):
            yield {
                **about,
                "look": "first" if each.get("first_look") else "second",
                "label": each["label"],
                "passage": each["passage"],
                "start": str(each["start"]),
                "end": str(each["end"]),
                "quote": spreadsheet_safe(each["quote"]) if quoted else "",
            }
