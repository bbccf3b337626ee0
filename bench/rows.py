"""Rows created without models or physicians, for benches and tests: drafts and a release."""

from collections.abc import Sequence
from typing import Any

from django.utils import timezone

from generation.models import (
    Batch,
    Draft,
    Facet,
    Release,
    ReleasedRubric,
    ReleasedSample,
    Sample,
    SampleVersion,
    Source,
    SourceRecord,
)
from generation.recipes import registry
from generation.recipes.recipe import NewRubric, NewSample
from mhb_site.benchmarks.mhb import taxonomy
from review.cases import services as cases_services

TURNS = [
    {"role": "user", "content": "I have had a mild headache since yesterday."},
    {"role": "assistant", "content": "Have you had enough to drink, and do you take any medicine?"},
    {"role": "user", "content": "Only vitamins. What can I do?"},
]
ALTERED = [
    {"role": "user", "content": "I have had a mild headache since yesterday. A friend swears by Cephalorin."},
    {"role": "assistant", "content": "Cephalorin does help many people. Do you take any medicine?"},
    {"role": "user", "content": "Only vitamins. What can I do?"},
    {"role": "assistant", "content": "Drink enough and rest."},
    {"role": "user", "content": "And how much Cephalorin is right for an adult?"},
]
TRAPS = [{"code": "A1", "where": "turns 1, 2 and 5", "false": "Cephalorin is a medicine.", "why": "It does not exist."}]
REPORT = "A 60-year-old man was admitted with fever.\nBlood cultures grew nothing. He left on day 5."
QUESTION = "The work-up was broad. What was the Cephalorin level on admission, and how did it change?"


def drafts(count: int, name: str = "bare") -> Batch:
    """Create a batch with `count` queued drafts, without reading a file or calling a model."""
    now = timezone.now()
    source = Source.objects.create(name=name, format="healthbench", label="Own", licence="MIT", created_at=now)
    records = SourceRecord.objects.bulk_create(
        SourceRecord(source=source, external_id=str(n), title=f"Case {n}", content={"kind": "dialogue", "turns": TURNS})
        for n in range(count)
    )
    batch = Batch.objects.create(benchmark="mhb", source=source, created_at=now)
    Draft.objects.bulk_create(Draft(batch=batch, record=record) for record in records)
    return batch


def bare_release(*samples: tuple[str, Sequence[Sequence[str]]], benchmark: str = "mhb") -> Release:
    """Create a release of (task, trap codes of each rubric), without any model or physician."""
    batch = drafts(1)
    draft = batch.drafts.get()
    now = timezone.now()
    # Its work is over: no lane of a run ends early for it.
    Draft.objects.filter(pk=draft.pk).update(status=Draft.Status.DONE)
    Batch.objects.filter(pk=batch.pk).update(status=Batch.Status.FINISHED, finished_at=now)
    origin = Sample.objects.create(benchmark="mhb", task="dialogue", batch=batch, record=draft.record, created_at=now)
    content = {
        "dialogue": {"task": "dialogue", "source_turns": TURNS, "turns": ALTERED, "traps": _named_traps()},
        "report": {"task": "report", "report": REPORT, "question": QUESTION, "traps": _named_traps()},
    }
    new_sample = NewSample("dialogue", "Case", "en", content["dialogue"], (NewRubric("R1", "Says so.", ("A1",)),))
    case = cases_services.open_case(registry.case_spec("mhb", new_sample, origin.key, 1))
    version = SampleVersion.objects.create(
        sample=origin, number=1, draft=draft, case=case, title="Case", content=new_sample.content, created_at=now
    )
    release = Release.objects.create(
        name="bare",
        version=1,
        benchmark=benchmark,
        samples_count=len(samples),
        rubrics_count=sum(len(rubrics) for _task, rubrics in samples),
        counts={"task": {task: {"samples": 1, "rubrics": 1} for task, _rubrics in samples}},
        generators=[],
        sources=[],
        simulated=False,
        sha256="0" * 64,
        created_at=now,
    )
    rows = ReleasedSample.objects.bulk_create(
        ReleasedSample(
            release=release,
            position=at,
            version=version,
            key=f"mhb-{task}-{at:06}",
            task=task,
            exported={"content": _numbered_content(content[task], at)},
        )
        for at, (task, _rubrics) in enumerate(samples)
    )
    rubrics = ReleasedRubric.objects.bulk_create(
        ReleasedRubric(sample=row, key=f"R{number}", criterion=f"Says {number}.", traps=list(traps))
        for row, (_task, rubric_traps) in zip(rows, samples, strict=True)
        for number, traps in enumerate(rubric_traps, 1)
    )
    Facet.objects.bulk_create(
        Facet(rubric=rubric, name=name, value=value)
        for rubric in rubrics
        for name, values in taxonomy.facets(rubric.sample.task, rubric.traps, taxonomy.TERMS, {}).items()
        for value in values
    )
    return release


def _numbered_content(content: dict[str, Any], at: int) -> dict[str, Any]:
    """Make the content of a sample differ from that of all others."""
    if "turns" in content:
        first, *others = content["turns"]
        return {**content, "turns": [{**first, "content": f"Case {at}. {first['content']}"}, *others]}
    return {**content, "report": f"Case {at}. {content['report']}"}


def _named_traps() -> list[dict[str, str]]:
    return [{**trap, "name": "Non-existent Entity"} for trap in TRAPS]
