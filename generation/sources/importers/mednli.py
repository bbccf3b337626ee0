"""MedNLI: premises from clinical notes; hypotheses that they entail, contradict or leave open.

An entailment refers to the contradictions with the same premise, so that a recipe finds them
wherever they are in the file.
"""

from typing import Annotated

from generation.sources.importers.base import Row, digest_of, gettext_noop
from generation.sources.importers.records import FileRecord, OptionalText, Text, one_of
from generation.sources.importers.tabular import File, RecordFormat

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


class Pair(FileRecord):
    sentence1: Text
    sentence2: Text
    gold_label: Annotated[Text, one_of(*LABELS)]
    pairID: OptionalText = ""

    @property
    def key(self) -> str:
        return self.pairID or digest_of(f"{self.sentence1}\n{self.sentence2}\n{self.gold_label}")[:24]


def _row(record: Pair, file: File) -> Row:
    """Row.content: {kind: 'nli-entailment' | 'nli-neutral' | 'nli-contradiction', dataset:
    'mednli', premise, hypothesis, label, split}.
    """
    gold, contradiction = record.gold_label, f"{CONTRADICTION}\n{record.sentence1}"
    match, references = "", {}
    if gold == CONTRADICTION:
        match = contradiction
    if gold == ENTAILMENT:
        references = {name: (contradiction,)}
    return Row(
        external_id=record.key,
        title=record.sentence2,
        language="en",
        content={
            "kind": f"nli-{gold}",
            "dataset": name,
            "premise": record.sentence1,
            "hypothesis": record.sentence2,
            "label": gold,
            "split": file.split,
        },
        match=match,
        references=references,
        shares=[("document", record.sentence1)],
        facets={"split": file.split or "unknown", "label": gold},
    )


FORMAT = RecordFormat(label, Pair, _row)
sniff, rows = FORMAT.sniff, FORMAT.rows
