"""A release of ClinHallu samples with images, made without any model or physician, and its simulated models."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.utils import timezone

from evaluation.protocol import Sample
from generation.images.services import store_image
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message
from generation.models import Release, ReleasedRubric, ReleasedSample
from mhb_site.benchmarks.clinhallu import simulate_answers
from tests.engine import SEED, bare_release
from tests.generation.images.drawn import picture

CRITERIA = {
    "visual": "The visual recognition is supported by the images.",
    "knowledge": "The recalled knowledge is right.",
    "reasoning": "The reasoning follows from its steps.",
    "answer": "The answer is correct.",
}


def content(number: int, *, dataset: str = "vqa-rad", images: Sequence[str] = (), **changes: Any) -> dict[str, Any]:
    """The content of a sample. The answer to odd ones is yes, to even ones an option."""
    odd = number % 2 == 1
    return {
        "kind": "vqa",
        "question": f"Is finding {number} there?" if odd else f"Which organ is it in case {number}?",
        "options": [] if odd else [["A", "Liver"], ["B", "Spleen"]],
        "answer": "yes" if odd else "Spleen",
        "letter": "" if odd else "B",
        "question_type": "yes_no" if odd else "multiple_choice",
        "dataset": dataset,
        "split": "test",
        "images": list(images),
        "body_system": "",
        "trace": {
            "visual": f"A round shadow, number {number}, stands left of the midline.",
            "knowledge": "Round shadows there are the spleen.",
            "reasoning": "The shadow is where the spleen is.",
            "answer": "yes" if odd else "B. Spleen",
        },
        **changes,
    }


def traced_sample(number: int = 1, **changes: Any) -> Sample:
    """A sample as the protocol sees it."""
    found = content(number, **changes)
    return Sample(f"clin-{number:03}", found["dataset"], found)


def traced_release(counts: Mapping[str, int]) -> Release:
    """So many samples of each data set, each with an image of its own, kept in the store."""
    version = bare_release(("dialogue", [["A1"]])).samples.get().version
    total = sum(counts.values())
    release = Release.objects.create(
        name="traced", version=1, benchmark="clinhallu", samples_count=total, rubrics_count=4 * total,
        counts={"task": {name: {"samples": n, "rubrics": 4 * n} for name, n in counts.items()}},
        generators=[], sources=[], simulated=False, sha256="1" * 64, created_at=timezone.now(),
    )  # fmt: skip
    simulate_answers.LABELS.clear()
    rows = []
    for at, dataset in enumerate(name for name, n in counts.items() for _ in range(n)):
        sha256 = store_image(picture(size=(40 + at, 30), shade=40 + at % 150)).sha256
        made = content(at, dataset=dataset, images=[sha256])
        simulate_answers.LABELS[made["question"], sha256] = made["trace"]["answer"]
        rows.append(
            ReleasedSample(
                release=release,
                position=at,
                version=version,
                key=f"clin-{at:03}",
                task=dataset,
                exported={"content": made},
            )
        )
    samples = ReleasedSample.objects.bulk_create(rows)
    ReleasedRubric.objects.bulk_create(
        ReleasedRubric(sample=sample, key=key, criterion=text, traps=[])
        for sample in samples
        for key, text in CRITERIA.items()
    )
    return release


class Seers:
    """The simulated models under test and their judge."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        return simulate_answers.reply(model, messages, seed)


@contextmanager
def seers() -> Iterator[str]:
    """The address of the simulated models."""
    with run_in_background(make_app([Seers()], seed=SEED, retry_after=0.001)) as url:
        yield url
