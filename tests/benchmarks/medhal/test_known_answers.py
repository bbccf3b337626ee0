"""What the paper prints follows from what it counted; and the released code's faults would be seen here."""

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

LF_BAL = configurations.CONFIGURATIONS[2]


def shares(counts: dict[str, int]) -> dict[str, float]:
    """Of each task, as Table 4 prints them."""
    by_task: Counter[str] = Counter()
    for source, n in counts.items():
        by_task[configurations.TASK_OF[source]] += n
    return {task: round(by_task[task] / sum(counts.values()), 2) for task in configurations.SHARES}


@pytest.mark.plain
def test_counts_and_proportions_of_table_4_follow_from_the_five_counts() -> None:
    full, filtered = configurations.STATEMENT_COUNTS, configurations.LENGTH_FILTERED
    smallest = min([LF_BAL.max_group_size, *(filtered[source] for source in LF_BAL.balanced)])
    balanced = {source: min(n, smallest) if source in LF_BAL.balanced else n for source, n in filtered.items()}
    totals = (configurations.FULL, configurations.FILTERED, configurations.BALANCED)
    assert totals == (827_096, 779_376, 469_025)
    for at, (counts, total) in enumerate(zip((full, filtered, balanced), totals, strict=True)):
        assert sum(counts.values()) == total
        assert shares(counts) == {task: printed[at] for task, printed in configurations.SHARES.items()}


async def made(record: SourceRecord, seed: int) -> list[Any]:
    settings = {**presets.PRESETS[0].values, "seed": seed}
    return [*await ie.pairs(record.content, record.external_id, settings, SourceValues(record))]


@pytest.mark.django_db(transaction=True)
def test_no_value_is_swapped_for_an_equal_one_or_one_of_another_category(tmp_path: Path) -> None:
    """The released code draws by the concept alone, and its loop that draws again where both are equal is commented out."""
    lines = []
    for at in range(12):
        # Nearly all say the same, in other letters; and a drug's time is no symptom's, though both are called so.
        told = {
            "symptoms": [{"name of symptom": "Fever", "time": ("Two days", "two  DAYS")[at % 2] if at else "a week"}],
            "treatments": [{"name": f"Drug {at}", "time": f"at night {at}"}],
        }
        note = {"idx": str(at), "note": f"Note {at}.", "full_note": f"Note {at}.", "conversation": ""}
        lines.append(json.dumps({**note, "summary": json.dumps(told)}))
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(lines))
    services.run_import(services.start_import(path, format_name="acn", name="notes").pk)
    records = list(SourceRecord.objects.order_by("pk"))
    pairs = [pair for record in records for seed in range(4) for pair in asyncio.run(made(record, seed))]
    swapped = [pair for pair in pairs if not pair.out]
    for pair in swapped:
        assert " ".join(pair.wrong.casefold().split()) != " ".join(pair.right.casefold().split())
        if pair.concept == "time":
            assert pair.wrong.startswith("at night") == (pair.category == "treatments")
    of_symptoms = Counter(pair.wrong for pair in swapped if (pair.category, pair.concept) == ("symptoms", "time"))
    assert set(of_symptoms) <= {"a week", "Two days", "two  DAYS", "two DAYS"}
    assert of_symptoms["a week"] == 11 * 4  # the only other value, of each note but its own
    assert {pair.out for pair in pairs if pair.concept == "name of symptom"} == {"no-other-value"}  # all have a fever
