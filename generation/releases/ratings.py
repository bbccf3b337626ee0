"""Physicians' answers about a release's samples, under pseudonyms.

A row for each review and question, and for each highlight.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from django.http.response import HttpResponseBase

from generation.common.chunks import chunked
from generation.models import Release, Rubric
from generation.releases import queries
from generation.releases.exporters.base import open_text, replace_files
from generation.releases.programs.verify_release import ANSWERS, BLIND, COLUMNS, VERDICT, Agreement
from review.access.visibility import counted_reviews
from review.audit.verification import pseudonym_key
from review.common.csv_text import BOM, END, line
from review.common.decorators import download
from review.quality.scales import Scale, merged, offered_answers
from review.rules.consolidation import added_wordings, same_wordings
from review.rules.state_machine import ADJUDICATORS

HIGHLIGHT_COLUMNS = (
    *("sample_id", "version", "rater", "role", "answer", "simulated"),
    *("look", "label", "passage", "start", "end", "quote"),
)
Author = tuple[str, str, str, str, str, str]  # the columns from `sample_id` to `simulated`
Rating = tuple[str, str, str]  # rubric, question, value
ReviewData = tuple[int, Author, str, dict[str, Any]]  # case, author, verdict, stored answers
SampleRef = tuple[str, int, int]  # key, version, case


def pseudonym(key: str, canary: str, physician: int) -> str:
    """A physician's pseudonym: the same in all versions of a release.

    Different in releases of another name.
    """
    return "rater-" + sha256(f"{key}\n{canary}\n{physician}".encode()).hexdigest()[:10]


def _reviews(chunks: Iterable[list[SampleRef]], canary: str) -> Iterator[list[ReviewData]]:
    """The reviews of each chunk of samples, in order."""
    secret = pseudonym_key()
    columns = ("case_id", "physician_id", "physician__simulated", "role", "phase", "verdict", "answers")
    for samples in chunks:
        rows = counted_reviews().filter(case__in=[case for _key, _version, case in samples]).order_by("pk")
        yield list(_review_data(samples, rows.values_list(*columns), secret, canary))


def _review_data(
    samples: Sequence[SampleRef], rows: Iterable[tuple[Any, ...]], secret: str, canary: str
) -> Iterator[ReviewData]:
    reviews: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for case, *fields in rows:
        reviews[case].append(tuple(fields))
    physicians: set[int] = set()
    for case_reviews in reviews.values():
        physicians.update(physician for physician, *_fields in case_reviews)
    pseudonyms = {physician: pseudonym(secret, canary, physician) for physician in physicians}
    for key, version, case in samples:
        _name_wordings([answers for *_about, answers in reviews[case]])
        for (_phase, _adjudicates), together in groupby(sorted(reviews[case], key=_compared), _compared):
            raters = [answers for *_about, answers in together]
            for answers, added in zip(raters, added_wordings(raters), strict=True):
                answers["added_words"] = added
        for physician, simulated, role, phase, verdict, answers in reviews[case]:
            rater, is_simulated = pseudonyms[physician], "false"
            if simulated:
                is_simulated = "true"
            yield case, (key, str(version), rater, role, ANSWERS[phase], is_simulated), verdict, answers


def _compared(review: tuple[Any, ...]) -> tuple[str, bool]:
    """Answers with the same value are compared with one another."""
    _physician, _simulated, role, phase, *_answers = review
    return phase, role in ADJUDICATORS


def _name_wordings(reviews: Sequence[dict[str, Any]]) -> None:
    """Say in the findings of a case which of its raters word a rubric alike."""
    named: set[str] = set()
    for answers in reviews:
        named.update(answers.get("rubrics", {}))
    for rubric in named:
        findings = [answers.get("rubrics", {}).get(rubric, {}) for answers in reviews]
        for finding, label in zip(findings, same_wordings(findings), strict=True):
            finding["words"] = label


def _ratings(verdict: str, answers: dict[str, Any]) -> Iterator[Rating]:
    """The ratings of a review. Notes, evidence and rewordings are free text and left out."""
    yield "", VERDICT, verdict
    for question, answer in sorted(answers.get("questions", {}).items()):
        if value := answer.get("value"):
            name, _colon, about = question.partition(":")  # asked of each rubric or trap
            yield about, name, str(value)
    for rubric, finding in sorted(answers.get("rubrics", {}).items()):
        for question, name in (("rubric", "value"), ("severity", "severity"), ("wording", "words")):
            if value := finding.get(name):
                yield rubric, question, str(value)
    for rubric, value in answers.get("added_words", {}).items():
        yield rubric, "wording", value
    if reason := answers.get("reason_code"):
        yield "", "reason", str(reason)


def agreement(samples: Sequence[SampleRef], canary: str) -> list[dict[str, Any]]:
    """The agreement of the blind answers about these samples.

    Computed as `verify_release.py` does from the ratings; the categories are the answers that the
    cases' forms offer.
    """
    result, scales = Agreement(), defaultdict[tuple[str, str], dict[int, Scale]](dict)
    for chunk in chunked(iter(samples)):
        case_of = {key: case for key, _version, case in chunk}
        offered = offered_answers(case_of.values())
        for reviews in _reviews([chunk], canary):
            for sample, rows in groupby(_blind(reviews), itemgetter("sample_id")):
                for pair, question in result.add(rows):
                    case = case_of[sample]
                    scales[pair, question][case] = offered[case].get(question, Scale(()))
    categories = {}
    for key, of_line in scales.items():
        oldest_first = [of_line[case] for case in sorted(of_line)]
        categories[key] = merged(oldest_first, result.given(key)).answers
    return result.lines(categories)


def _blind(reviews: Iterable[ReviewData]) -> Iterator[dict[str, str]]:
    """The blind answers, with the columns that agreement is computed from."""
    for _case, (sample, _version, rater, role, answer, _simulated), verdict, answers in reviews:
        if answer == BLIND:
            columns = {"sample_id": sample, "rater": rater, "role": role, "answer": answer}
            for rubric, question, value in _ratings(verdict, answers):
                yield {**columns, "rubric": rubric, "question": question, "value": value}


def lines(release: Release, split: str) -> Iterator[str]:
    """`ratings.csv` in the order of the samples, in chunks."""
    yield BOM + line(COLUMNS) + END
    for reviews in _reviews(_sample_chunks(release, split), release.canary):
        yield "".join(_rows(reviews))


def download_of(release: Release, split: str) -> HttpResponseBase:
    """The response that sends `ratings.csv`."""
    name = f"{release.name}-v{release.version}-ratings.csv"
    return download(lines(release, split), name, "text/csv; charset=utf-8")


def write(release: Release, split: str, folder: Path, *, quoted: bool = True) -> list[Path]:
    """Write `ratings.csv` and `highlights.csv`.

    `quoted`: include the highlighted words, which belong to a source.
    """
    paths = [folder / "ratings.csv", folder / "highlights.csv"]
    with (
        replace_files(*paths) as [ratings_path, highlights_path],
        open_text(ratings_path, "") as ratings_file,
        open_text(highlights_path, "") as highlights_file,
    ):
        ratings_file.write(BOM + line(COLUMNS) + END)
        highlights_file.write(BOM + line(HIGHLIGHT_COLUMNS) + END)
        for reviews in _reviews(_sample_chunks(release, split), release.canary):
            ratings_file.writelines(_rows(reviews))
            highlights_file.writelines(_highlights(reviews, quoted))
    return paths


def _sample_chunks(release: Release, split: str) -> Iterator[list[SampleRef]]:
    return queries.in_order(release, split, "key", "version__number", "version__case")


def _rows(reviews: Sequence[ReviewData]) -> Iterator[str]:
    """The ratings sample by sample; those of a rubric with its polarity.

    Both blind answers and those confirmed or changed after seeing others' answers.
    """
    cases = {case for case, _about, _verdict, answers in reviews if answers.get("rubrics")}
    polarities: dict[int, dict[str, str]] = defaultdict(dict)
    if cases:
        rubrics = Rubric.objects.filter(version__case__in=cases).exclude(polarity="").order_by()
        for case, key, polarity in rubrics.values_list("version__case", "key", "polarity"):
            polarities[case][key] = polarity
    for case, author, verdict, answers in reviews:
        for rubric, question, value in _ratings(verdict, answers):
            yield line((*author, rubric, polarities[case].get(rubric, ""), question, value)) + END


def _highlights(reviews: Iterable[ReviewData], quoted: bool) -> Iterator[str]:
    for _case, author, _verdict, answers in reviews:
        for highlight in answers.get("highlights", ()):
            phase, quote = "second", ""
            if highlight.get("first_look"):
                phase = "first"
            if quoted:
                quote = highlight["quote"]
            start, end = str(highlight["start"]), str(highlight["end"])
            yield line((*author, phase, highlight["label"], highlight["passage"], start, end, quote)) + END
