"""The test split of MedNLI as statements of MedHal.

Entailed hypotheses are factual, contradicted ones non-factual; neutral ones are refused.
Credentialed (PhysioNet). JSON Lines with `sentence1`, `sentence2`, `gold_label` and `pairID`. The
training split is imported as `mednli`, from which statements are generated.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generation.sources.importers import mednli, tabular
from generation.sources.importers.base import (
    Layout,
    Malformed,
    Refusal,
    Row,
    WrongFormat,
    checked_id,
    digest_of,
    one_line,
    required_text,
)

name = "mednli-test"
label = "MedNLI-test"
licence = "PhysioNet Credentialed Health Data License 1.5.0"
citation = mednli.citation
restrictions = mednli.restrictions
withheld = True

LABELS = {"entailment": "factual", "contradiction": "non-factual"}


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """Raises WrongFormat unless the file's name says that it is the test split."""
    result = FORMAT.rows(path, layout)
    if tabular.split_of(path, layout) != "test":
        raise WrongFormat("Its name does not say that it is the test split; other splits are imported as mednli.")
    return result


def _row(record: dict[str, Any], _split: str) -> Row:
    """Of a statement: content as in `medhal`, with task 'mednli' and split 'test'."""
    premise, hypothesis = required_text(record, "sentence1").strip(), required_text(record, "sentence2").strip()
    gold = required_text(record, "gold_label").strip().casefold()
    if gold not in LABELS:
        neutral = "It is neutral: neither factual nor non-factual."
        raise Malformed(neutral if gold == "neutral" else f"'gold_label' is not one of {', '.join(LABELS)}, neutral.")
    content = {
        "kind": "statement",
        "statement": hypothesis,
        "context": premise,
        "label": LABELS[gold],
        "explanation": "",
        "task": "mednli",
        "source": "mednli",
        "pair": "",
        "inner_id": "",
        "split": "test",
        "synthetic": False,
    }
    external_id = tabular.optional_text(record, "pairID") or digest_of(f"{premise}\n{hypothesis}\n{gold}")[:24]
    return Row(
        external_id=checked_id(external_id),
        title=one_line(hypothesis),
        language="en",
        content=content,
        facets={"label": str(content["label"]), "split": "test"},
    )


FORMAT = tabular.RecordFormat(label, _row, tabular.missing_of(mednli.COLUMNS))
sniff = FORMAT.sniff
