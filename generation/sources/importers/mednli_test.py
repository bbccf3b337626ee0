"""The test split of MedNLI as statements of MedHal.

Entailed hypotheses are factual, contradicted ones non-factual; neutral ones are refused.
Credentialed (PhysioNet). JSON Lines with `sentence1`, `sentence2`, `gold_label` and `pairID`. The
training split is imported as `mednli`, from which statements are generated.
"""

from collections.abc import Iterator
from pathlib import Path

from generation.sources.importers import mednli
from generation.sources.importers.base import Layout, Malformed, Refusal, Row, WrongFormat
from generation.sources.importers.tabular import File, RecordFormat, file_of, statement_content

name = "mednli-test"
label = "MedNLI-test"
licence = "PhysioNet Credentialed Health Data License 1.5.0"
citation = mednli.citation
restrictions = mednli.restrictions
withheld = True


def rows(path: Path, layout: Layout) -> Iterator[Row | Refusal]:
    """Raises WrongFormat unless the file's name says that it is the test split."""
    result = FORMAT.rows(path, layout)
    if file_of(path, layout).split != "test":
        raise WrongFormat("Its name does not say that it is the test split; other splits are imported as mednli.")
    return result


def _row(record: mednli.Pair, _file: File) -> Row:
    """Row.content: as in `statement_content`."""
    if record.gold_label == mednli.NEUTRAL:
        raise Malformed("It is neutral: neither factual nor non-factual.")
    factual = record.gold_label == mednli.ENTAILMENT
    content = statement_content(record.sentence2, record.sentence1, factual=factual, task="mednli")
    facets, shares = {"label": content["label"], "split": "test"}, [("document", record.sentence1)]
    return Row(record.key, record.sentence2, "en", content, facets=facets, shares=shares)


FORMAT = RecordFormat(label, mednli.Pair, _row)
sniff = FORMAT.sniff
