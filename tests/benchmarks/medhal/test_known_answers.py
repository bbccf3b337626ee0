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
from mhb_site.benchmarks.medhal import configurations, presets
from mhb_site.benchmarks.medhal.tasks import ie


def shares(counts: dict[str, int]) -> dict[str, float]:
    """Return the share of each task, rounded as in Table 4."""
    by_task: Counter[str] = Counter()
    for source, n in counts.items():
        by_task[configurations.TASK_OF[source]] += n
    return {task: round(by_task[task] / sum(counts.values()), 2) for task in configurations.SHARES}


@pytest.mark.plain
def test_the_totals_and_shares_of_table_4_follow_from_the_counts_per_source() -> None:
    full, filtered = configurations.STATEMENT_COUNTS, configurations.LENGTH_FILTERED
    # The paper's balanced set leaves MedQA whole and cuts the other large sources to the smallest.
    smallest = min(filtered[source] for source in ("medmcqa", "acn", "sumpubmed"))
    balanced = {source: min(n, smallest) if source != "medqa" else n for source, n in filtered.items()}
    totals = (configurations.FULL, configurations.FILTERED, configurations.BALANCED)
    assert totals == (827_096, 779_376, 469_025)
    for column, (counts, total) in enumerate(zip((full, filtered, balanced), totals, strict=True)):
        assert sum(counts.values()) == total
        assert shares(counts) == {
            task: shares_of_task[column] for task, shares_of_task in configurations.SHARES.items()
        }


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
