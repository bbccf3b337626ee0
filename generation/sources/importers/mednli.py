"""MedNLI: premises from clinical notes; hypotheses that they entail, contradict or leave open.

An entailment refers to the contradictions with the same premise, so that a recipe finds them
wherever they are in the file.
"""

from typing import Any

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    Malformed,
    Row,
    checked_id,
    digest_of,
    gettext_noop,
    one_line,
    required_text,
)

name = "mednli"
label = "MedNLI"
licence = "PhysioNet Credentialed Health Data License 1.5.0"
citation = (
    "Romanov A, Shivade C. Lessons from Natural Language Inference in the Clinical Domain. Proceedings of EMNLP 2018,"
    " 1586-1596 (2018)."
)
restrictions = gettext_noop(
    "credentialed access only: do not share the text with anybody, or send it to a model, outside of the data use agreement"
)
withheld = True

ENTAILMENT, NEUTRAL, CONTRADICTION = LABELS = ("entailment", "neutral", "contradiction")


def _row(record: dict[str, Any], split: str) -> Row:
    """Of a pair of premise and hypothesis.

    Row.content: {kind: 'nli-entailment' | 'nli-neutral' | 'nli-contradiction', dataset: 'mednli',
    premise, hypothesis, label, split}.
    """
    premise, hypothesis = required_text(record, "sentence1").strip(), required_text(record, "sentence2").strip()
    gold = required_text(record, "gold_label").strip().casefold()
    if gold not in LABELS:
        raise Malformed(f"'gold_label' is not one of {', '.join(LABELS)}.")
    external_id = tabular.optional_text(record, "pairID")
    return Row(
        external_id=checked_id(external_id or digest_of("\n".join((premise, hypothesis, gold)))[:24]),
        title=one_line(hypothesis),
        language="en",
        content={
            "kind": f"nli-{gold}",
            "dataset": name,
            "premise": premise,
            "hypothesis": hypothesis,
            "label": gold,
            "split": split,
        },
        match=f"{CONTRADICTION}\n{premise}" if gold == CONTRADICTION else "",
        references={name: (f"{CONTRADICTION}\n{premise}",)} if gold == ENTAILMENT else {},
        facets={"split": split or "unknown", "label": gold},
    )


COLUMNS = ("sentence1", "sentence2", "gold_label")
FORMAT = tabular.RecordFormat(label, _row, tabular.missing_of(COLUMNS))
sniff, rows = FORMAT.sniff, FORMAT.rows
