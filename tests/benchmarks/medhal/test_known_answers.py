"""The paper's printed shares follow from its counts, and known faults of the released code are
absent."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from generation.models import SourceRecord
from generation.sources import services
from generation.sources.other_values import SourceValues
from mhb_site.benchmarks.medhal import presets
from mhb_site.benchmarks.medhal.tasks import ie
from tests.benchmarks.medhal.statements import TASK_OF

# Table 2, after the filter; they add up to the full configuration.
STATEMENT_COUNTS = {"medmcqa": 278_021, "mednli": 7_488, "acn": 327_568, "medqa": 18_680, "sumpubmed": 195_339}
FULL, FILTERED, BALANCED = 827_096, 779_376, 469_025  # Table 4
LENGTH_FILTERED = {
    **STATEMENT_COUNTS,
    # No other source has contexts that long.
    "sumpubmed": STATEMENT_COUNTS["sumpubmed"] - (FULL - FILTERED),
}
# Table 4: the share of each task in the three configurations.
SHARES = {
    "summarization": (0.24, 0.19, 0.31),
    "ie": (0.40, 0.42, 0.31),
    "qa": (0.36, 0.38, 0.35),
    "nli": (0.01, 0.01, 0.02),
}


def shares(counts: dict[str, int]) -> dict[str, float]:
    """Return the share of each task, rounded as in Table 4."""
    by_task: Counter[str] = Counter()
    for source, n in counts.items():
        by_task[TASK_OF[source]] += n
    return {task: round(by_task[task] / sum(counts.values()), 2) for task in SHARES}


@pytest.mark.plain
def test_the_totals_and_shares_of_table_4_follow_from_the_counts_per_source() -> None:
    full, filtered = STATEMENT_COUNTS, LENGTH_FILTERED
    # The paper's balanced set leaves MedQA whole and cuts the other large sources to the smallest.
    smallest = min(filtered[source] for source in ("medmcqa", "acn", "sumpubmed"))
    balanced = {source: min(n, smallest) if source != "medqa" else n for source, n in filtered.items()}
    totals = (FULL, FILTERED, BALANCED)
    assert totals == (827_096, 779_376, 469_025)
    for column, (counts, total) in enumerate(zip((full, filtered, balanced), totals, strict=True)):
        assert sum(counts.values()) == total
        assert shares(counts) == {task: shares_of_task[column] for task, shares_of_task in SHARES.items()}


async def extraction_pairs(record: SourceRecord, seed: int) -> list[Any]:
    settings = {**presets.PRESETS[0].values, "seed": seed}
    return [*await ie.pairs(record.content, record.external_id, settings, SourceValues(record))]


@pytest.mark.django_db(transaction=True)
def test_a_value_is_never_swapped_for_an_equal_one_or_one_of_another_category(tmp_path: Path) -> None:
    """The released code draws by concept only, and its loop that redraws equal values is commented
    out."""
    lines = []
    for number in range(12):
        # Nearly all notes have equal values that differ in case; both symptoms and drugs have a
        # 'time'.
        summary = {
            "symptoms": [
                {"name of symptom": "Fever", "time": ("Two days", "two  DAYS")[number % 2] if number else "a week"}
            ],
            "treatments": [{"name": f"Drug {number}", "time": f"at night {number}"}],
        }
        note = {"idx": str(number), "note": f"Note {number}.", "full_note": f"Note {number}.", "conversation": ""}
        lines.append(json.dumps({**note, "summary": json.dumps(summary)}))
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(lines))
    services.run_import(services.start_import(path, format_name="acn", name="notes").pk)
    records = list(SourceRecord.objects.order_by("pk"))
    pairs = [pair for record in records for seed in range(4) for pair in asyncio.run(extraction_pairs(record, seed))]
    swapped = [pair for pair in pairs if not pair.out]
    for pair in swapped:
        assert " ".join(pair.wrong.casefold().split()) != " ".join(pair.right.casefold().split())
        if pair.concept == "time":
            assert pair.wrong.startswith("at night") == (pair.category == "treatments")
    symptom_times = Counter(pair.wrong for pair in swapped if (pair.category, pair.concept) == ("symptoms", "time"))
    assert set(symptom_times) <= {"a week", "Two days", "two  DAYS", "two DAYS"}
    assert symptom_times["a week"] == 11 * 4  # the only other value for all notes but the first
    # Every note has a fever.
    assert {pair.out for pair in pairs if pair.concept == "name of symptom"} == {"no-other-value"}
