"""A release of MedHal's statements without any model or physician, for tests."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone

from generation.models import Facet, Release, ReleasedRubric, ReleasedSample
from mhb_site.benchmarks.medhal import taxonomy
from mhb_site.benchmarks.medhal.simulate_detection import PLANTED
from tests.engine import bare_release


def statement(at: int, *, factual: bool = True, task: str = "qa", context: str = "", **more: Any) -> dict[str, Any]:
    """The content of a statement; those that are wrong carry the mark that simulated detectors see."""
    wrong = "" if factual else f" {PLANTED}"
    return {
        "kind": "statement",
        "statement": f"Drug {at} lowers blood pressure{wrong} in adults.",
        "context": context,
        "label": "factual" if factual else "non-factual",
        "explanation": "" if factual else f"According to the record, Drug {at} lowers blood pressure in adults.",
        "task": task,
        "source": {"qa": "medqa", "ie": "acn", "nli": "mednli", "summarization": "sumpubmed"}.get(task, task),
        "pair": "",
        "inner_id": "",
        "split": "train",
        "synthetic": False,
        "length": taxonomy.length_of(context),
        **more,
    }


def released(contents: Sequence[Mapping[str, Any]], name: str = "statements") -> Release:
    """A release of these, each with the one rubric 'label' and its facets."""
    version = bare_release(("dialogue", [["A1"]])).samples.get().version
    tasks = Counter(each["task"] for each in contents)
    release = Release.objects.create(
        name=name, version=1, benchmark="medhal", samples_count=len(contents), rubrics_count=len(contents),
        counts={"task": {task: {"samples": n, "rubrics": n} for task, n in tasks.items()}},
        generators=[], sources=[], simulated=False, sha256="2" * 64, created_at=timezone.now(),
    )  # fmt: skip
    samples = ReleasedSample.objects.bulk_create(
        ReleasedSample(
            release=release,
            position=at,
            version=version,
            key=f"medhal-{content['task']}-{at:06}",
            task=content["task"],
            exported={"content": dict(content)},
        )
        for at, content in enumerate(contents)
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
