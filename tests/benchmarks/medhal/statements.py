"""Releases and approved samples of MedHal statements, created without models or physicians."""

from collections import Counter
from collections.abc import Mapping, Sequence
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
    SourceRecord,
)
from mhb_site.benchmarks.medhal import taxonomy
from mhb_site.benchmarks.medhal.simulate_detection import WRONG_MARK
from review.models import Case
from tests.engine import bare_release

TASK_OF = {"medmcqa": "qa", "medqa": "qa", "mednli": "nli", "acn": "ie", "sumpubmed": "summarization"}


def statement(
    number: int, *, factual: bool = True, task: str = "qa", context: str = "", **fields: Any
) -> dict[str, Any]:
    """Return the content of a statement; a wrong one carries the mark that simulated detectors
    recognise."""
    wrong = "" if factual else f" {WRONG_MARK}"
    return {
        "kind": "statement",
        "statement": f"Drug {number} lowers blood pressure{wrong} in adults.",
        "context": context,
        "label": "factual" if factual else "non-factual",
        "explanation": "" if factual else f"According to the record, Drug {number} lowers blood pressure in adults.",
        "task": task,
        "source": {"qa": "medqa", "ie": "acn", "nli": "mednli", "summarization": "sumpubmed"}.get(task, task),
        "pair": "",
        "inner_id": "",
        "split": "train",
        "synthetic": False,
        "length": taxonomy.length_of(context),
        **fields,
    }


def create_release(contents: Sequence[Mapping[str, Any]], name: str = "statements") -> Release:
    """Create a release of these statements, each with the rubric 'label' and its facets."""
    version = bare_release(("dialogue", [["A1"]])).samples.get().version
    tasks = Counter(content["task"] for content in contents)
    release = Release.objects.create(
        name=name, version=1, benchmark="medhal", samples_count=len(contents), rubrics_count=len(contents),
        counts={"task": {task: {"samples": n, "rubrics": n} for task, n in tasks.items()}},
        generators=[], sources=[], simulated=False, sha256="2" * 64, created_at=timezone.now(),
    )  # fmt: skip
    samples = ReleasedSample.objects.bulk_create(
        ReleasedSample(
            release=release,
            position=position,
            version=version,
            key=f"medhal-{content['task']}-{position:06}",
            task=content["task"],
            exported={"content": dict(content)},
        )
        for position, content in enumerate(contents)
    )
    rubrics = ReleasedRubric.objects.bulk_create(
        ReleasedRubric(sample=sample, key="label", criterion="Says rightly whether it is factual.", traps=[])
        for sample in samples
    )
    Facet.objects.bulk_create(
        Facet(rubric=rubric, name=name, value=value)
        for rubric, content in zip(rubrics, contents, strict=True)
        for name, values in taxonomy.facets(content["task"], [], (), content).items()
        for value in values
    )
    return release


def create_approved_samples(contents: Sequence[Mapping[str, Any]]) -> None:
    """Create these statements as approved, unreviewed samples, each from its own source record."""
    first = bare_release(("dialogue", [["A1"]])).samples.get().version
    now = timezone.now()
    batch = Batch.objects.create(benchmark="medhal", source=first.sample.record.source, created_at=now)
    records = SourceRecord.objects.bulk_create(
        SourceRecord(source=batch.source, external_id=f"s-{number}", title="S", content=dict(content))
        for number, content in enumerate(contents)
    )
    drafts = Draft.objects.bulk_create(Draft(batch=batch, record=record) for record in records)
    samples = Sample.objects.bulk_create(
        Sample(benchmark="medhal", task=content["task"], batch=batch, record=record, status="approved", created_at=now)
        for content, record in zip(contents, records, strict=True)
    )
    fields = {field.attname: getattr(first.case, field.attname) for field in Case._meta.concrete_fields}
    del fields["id"]
    fields |= {"state": "approved", "ground": "unreviewed", "closed_at": now, "language": "en"}
    cases = Case.objects.bulk_create(Case(**{**fields, "lineage": sample.key}) for sample in samples)
    SampleVersion.objects.bulk_create(
        SampleVersion(
            sample=sample, number=1, draft=draft, case=case, title="S", status="approved", created_at=now, content=content
        )
        for sample, draft, case, content in zip(samples, drafts, cases, map(dict, contents), strict=True)
    )  # fmt: skip
