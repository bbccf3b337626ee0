"""What physicians answered about the samples of a release, under pseudonyms: one row a review and question, one a highlight."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from generation.common.chunks import chunked
from generation.models import Release, Rubric
from generation.releases import queries
from generation.releases.exporters.base import opened, replacing
from generation.releases.exporters.csv_ import row, spreadsheet_safe
from generation.releases.exporters.programs.verify_release import BLIND, COLUMNS, Agreement, by_sample
from review.access.visibility import counted_reviews
from review.audit.verification import pseudonym_key
from review.common.sql import Rows, ahead, among, as_text, json_of, repeated
from review.rules.state_machine import Phase

ANSWERS = {Phase.COMMIT.value: "blind", Phase.CONFIRM.value: "confirmed", Phase.DISCUSS.value: "discussed"}
HIGHLIGHT_COLUMNS = (
    *("sample_id", "version", "rater", "role", "answer", "simulated"),
    *("look", "label", "passage", "start", "end", "quote"),
)
Author = tuple[str, str, str, str, str, str]  # what a row says of a review: `sample_id` to `simulated`
Rating = tuple[str, str, str]  # rubric, question, value
Given = tuple[int, Author, str, dict[str, Any]]  # a review: case, author, verdict, stored answers
Sampled = tuple[str, int, int]  # key, version, case


def pseudonym(key: str, canary: str, physician: int) -> str:
    """A physician's name in one release: the same in all its versions, another in releases of another name."""
    return "rater-" + sha256(f"{key}\n{canary}\n{physician}".encode()).hexdigest()[:10]


def _reviews(parts: Iterable[list[Sampled]], canary: str) -> Iterator[list[Given]]:
    """Those of the samples of each part, in their order; asked for while the part before is worked on."""
    secret = pseudonym_key()
    request = repeated(_stored)
    for samples, rows in ahead((part, request([case for _key, _version, case in part])) for part in parts):
        yield list(_given(samples, rows(), secret, canary))


def _stored(cases: list[int]) -> Rows:
    rows = counted_reviews().filter(among("case", cases)).order_by("pk")
    columns = ("case_id", "physician_id", "physician__simulated", "role", "phase", "verdict")
    return rows.values_list(*columns, as_text("answers"))


def _given(samples: Sequence[Sampled], rows: Iterable[tuple[Any, ...]], secret: str, canary: str) -> Iterator[Given]:
    reviews: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for case, *about, answers in rows:
        reviews[case].append((*about, json_of(answers)))
    physicians = {physician for given in reviews.values() for physician, *_about in given}
    names = {physician: pseudonym(secret, canary, physician) for physician in physicians}
    for key, version, case in samples:
        for physician, simulated, role, phase, verdict, answers in reviews[case]:
            rater, told = names[physician], "true" if simulated else "false"
            yield case, (key, str(version), rater, role, ANSWERS[phase], told), verdict, answers


def _ratings(verdict: str, answers: dict[str, Any]) -> Iterator[Rating]:
    """Those of a review. Notes, evidence and wordings stay behind: they are free text."""
    yield "", "verdict", verdict
    for question, answer in sorted(answers.get("questions", {}).items()):
        if value := answer.get("value"):
            yield "", question, str(value)
    for rubric, finding in sorted(answers.get("rubrics", {}).items()):
        for question, name in (("rubric", "value"), ("severity", "severity")):
            if value := finding.get(name):
                yield rubric, question, str(value)
    if reason := answers.get("reason_code"):
        yield "", "reason", str(reason)


def agreement(samples: Sequence[Sampled], canary: str) -> list[dict[str, Any]]:
    """How far the blind answers about these samples agree, as `verify_release.py` computes it from the ratings."""
    found = Agreement()
    for reviews in _reviews(chunked(iter(samples)), canary):
        for rows in by_sample(_blind(reviews)):
            found.add(rows)
    return found.lines()


def _blind(reviews: Iterable[Given]) -> Iterator[dict[str, str]]:
    """The blind answers, as far as agreement is counted by them."""
    for _case, (sample, _version, rater, role, answer, _simulated), verdict, answers in reviews:
        if answer == BLIND:
            about = {"sample_id": sample, "rater": rater, "role": role, "answer": answer}
            for rubric, question, value in _ratings(verdict, answers):
                yield {**about, "rubric": rubric, "question": question, "value": value}


def lines(release: Release, split: str) -> Iterator[str]:
    """`ratings.csv`, in the order of the samples, in pieces."""
    yield row(COLUMNS) + "\n"
    for reviews in _reviews(_parts(release, split), release.canary):
        yield "".join(_rows(reviews))


def write(release: Release, split: str, folder: Path, *, quoted: bool = True) -> list[Path]:
    """Write `ratings.csv` and `highlights.csv`. `quoted`: the latter with the words themselves, which are a source's."""
    paths = [folder / "ratings.csv", folder / "highlights.csv"]
    with (
        replacing(*paths) as [first, second],
        opened(first, "") as rated,
        opened(second, "") as marked,
    ):
        rated.write(row(COLUMNS) + "\n")
        marked.write(row(HIGHLIGHT_COLUMNS) + "\n")
        for reviews in _reviews(_parts(release, split), release.canary):
            rated.writelines(_rows(reviews))
            marked.writelines(_highlights(reviews, quoted))
    return paths


def _parts(release: Release, split: str) -> Iterator[list[Sampled]]:
    return queries.in_order(release, split, "key", "version__number", "version__case")


def _rows(reviews: Sequence[Given]) -> Iterator[str]:
    """The ratings, blind ones and those that were confirmed or changed after seeing others', sample by sample; those of a
    rubric with its polarity."""
    cases = {case for case, _about, _verdict, answers in reviews if answers.get("rubrics")}
    rubrics = Rubric.objects.filter(among("version__case", cases)).exclude(polarity="").order_by()
    told: dict[int, dict[str, str]] = defaultdict(dict)
    for case, key, polarity in rubrics.values_list("version__case", "key", "polarity") if cases else ():
        told[case][key] = polarity
    of, of_case, sample = ("", ""), {}, ""
    for case, author, verdict, answers in reviews:
        if author[:2] != of:
            of, of_case = author[:2], told.get(case, {})
            sample = row(of)
        by = f"{sample},{_repeated(*author[2:])}"
        for rubric, question, value in _ratings(verdict, answers):
            yield f"{by},{_repeated(rubric, of_case.get(rubric, ''), question, value)}\n"


@lru_cache(maxsize=4096)
def _repeated(*cells: str) -> str:
    """Part of a row of which there are few: who has answered, or what."""
    return row(cells)


def _highlights(reviews: Iterable[Given], quoted: bool) -> Iterator[str]:
    for _case, author, _verdict, answers in reviews:
        for each in answers.get("highlights", ()):
            cells = (
                *author,
                "first" if each.get("first_look") else "second",
                each["label"],
                each["passage"],
                str(each["start"]),
                str(each["end"]),
                spreadsheet_safe(each["quote"]) if quoted else "",
            )
            yield row(cells) + "\n"
