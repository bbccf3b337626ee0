"""What physicians answered about the samples of a release, under pseudonyms: one row a review and question, one a highlight."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TextIO

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
Given = tuple[
    int, Rating, str, dict[str, Any]
]  # a review: case, what a row says of its author, verdict, stored answers


def pseudonym(key: str, canary: str, physician: int) -> str:
    """A physician's name in one release: the same in all its versions, another in releases of another name."""
    return "rater-" + sha256(f"{key}\n{canary}\n{physician}".encode()).hexdigest()[:10]


def _reviews(samples: Sequence[Sampled], canary: str) -> Iterator[Given]:
    """Those of each sample, in their order."""
    secret = ChainHead.objects.values_list("key", flat=True).get(pk=trail.EVENTS)
    reviews: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    rows = counted_reviews().filter(case__in=[case for _key, _version, case in samples]).order_by("pk")
    columns = ("case_id", "physician_id", "physician__simulated", "role", "phase", "verdict", "answers")
    for case, *about in rows.values_list(*columns):
        reviews[case].append(tuple(about))
    physicians = {physician for given in reviews.values() for physician, *_about in given}
    names = {physician: pseudonym(secret, canary, physician) for physician in physicians}
    for key, version, case in samples:
        for physician, simulated, role, phase, verdict, answers in reviews[case]:
            about = {
                "sample_id": key,
                "version": str(version),
                "rater": names[physician],
                "role": role,
                "answer": ANSWERS[phase],
                "simulated": "true" if simulated else "false",
            }
            yield case, about, verdict, answers


def _ratings(reviews: Iterable[Given]) -> Iterator[Rating]:
    """Blind answers, and those that were confirmed or changed after seeing others', sample by sample.

    Notes, evidence and wordings stay behind: they are free text.
    """
    for _case, about, verdict, answers in reviews:
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
        for rows in by_sample(_ratings(_reviews(part, canary))):
            found.add(rows)
    return found.lines()


def lines(release: Release, split: str) -> Iterator[str]:
    """`ratings.csv`, in the order of the samples, in pieces."""
    file = io.StringIO()
    writer = _writer(file, COLUMNS)
    for part in _parts(release, split):
        writer.writerows(_with_polarity(list(_reviews(part, release.canary))))
        yield file.getvalue()
        file.seek(0)
        file.truncate()
    yield file.getvalue()


def write(release: Release, split: str, folder: Path, *, quoted: bool = True) -> list[Path]:
    """Write `ratings.csv` and `highlights.csv`. `quoted`: the latter with the words themselves, which are a source's."""
    paths = [folder / "ratings.csv", folder / "highlights.csv"]
    with (
        replacing(*paths) as [first, second],
        first.open("w", encoding="utf-8", newline="") as rated,
        second.open("w", encoding="utf-8", newline="") as marked,
    ):
        ratings, highlights = _writer(rated, COLUMNS), _writer(marked, HIGHLIGHT_COLUMNS)
        for part in _parts(release, split):
            reviews = list(_reviews(part, release.canary))
            ratings.writerows(_with_polarity(reviews))
            highlights.writerows(_highlights(reviews, quoted))
    return paths


def _writer(file: TextIO, columns: Sequence[str]) -> "csv.DictWriter[str]":
    writer = csv.DictWriter(file, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    return writer


def _parts(release: Release, split: str) -> Iterator[list[Sampled]]:
    rows = ReleasedSample.objects.filter(release=release, split=split).order_by("position")
    yield from chunked(rows.values_list("key", "version__number", "version__case").iterator(chunk_size=500))


def _with_polarity(reviews: Sequence[Given]) -> Iterator[Rating]:
    """The ratings; those of a rubric with its polarity."""
    cases = {case for case, _about, _verdict, answers in reviews if answers.get("rubrics")}
    rubrics = Rubric.objects.filter(version__case__in=cases).exclude(polarity="").order_by()
    told: dict[int, dict[str, str]] = defaultdict(dict)
    for case, key, polarity in rubrics.values_list("version__case", "key", "polarity") if cases else ():
        told[case][key] = polarity
    for review in reviews:
        of_case = told.get(review[0], {})
        for rating in _ratings([review]):
            rating["polarity"] = of_case.get(rating["rubric"], "")
            yield rating


def _highlights(reviews: Iterable[Given], quoted: bool) -> Iterator[Rating]:
    for _case, about, _verdict, answers in reviews:
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
