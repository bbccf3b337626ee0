"""A release of ClinHallu samples with images, created without models or physicians, and its
simulated models."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.utils import timezone

from evaluation.protocol import Sample
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message
from generation.models import Release, ReleasedRubric, ReleasedSample
from mhb_site.benchmarks.clinhallu import simulate_answers
from tests.engine import SEED, bare_release
from tests.generation.images.drawing import picture, store_image

CRITERIA = {
    "visual": "The visual recognition is supported by the images.",
    "knowledge": "The recalled knowledge is right.",
    "reasoning": "The reasoning follows from its steps.",
    "answer": "The answer is correct.",
}


def content(number: int, *, dataset: str = "vqa-rad", images: Sequence[str] = (), **changes: Any) -> dict[str, Any]:
    """Return the content of a sample: odd numbers are yes/no questions, even numbers have
    options."""
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
    """Return a sample as the protocol sees it."""
    sample_content = content(number, **changes)
    return Sample(f"clin-{number:03}", sample_content["dataset"], sample_content)


def traced_release(counts: Mapping[str, int]) -> Release:
    """Create a release with this many samples of each data set, each with its own stored image."""
    version = bare_release(("dialogue", [["A1"]])).samples.get().version
    total = sum(counts.values())
    release = Release.objects.create(
        name="traced", version=1, benchmark="clinhallu", samples_count=total, rubrics_count=4 * total,
        counts={"task": {name: {"samples": n, "rubrics": 4 * n} for name, n in counts.items()}},
        generators=[], sources=[], simulated=False, sha256="1" * 64, created_at=timezone.now(),
    )  # fmt: skip
    simulate_answers.LABELS.clear()
    rows = []
    for index, dataset in enumerate(name for name, n in counts.items() for _ in range(n)):
        sha256 = store_image(picture(size=(40 + index, 30), shade=40 + index % 150)).sha256
        sample_content = content(index, dataset=dataset, images=[sha256])
        simulate_answers.LABELS[sample_content["question"], sha256] = sample_content["trace"]["answer"]
        rows.append(
            ReleasedSample(
                release=release,
                position=index,
                version=version,
                key=f"clin-{index:03}",
                task=dataset,
                exported={"content": sample_content},
            )
        )
    samples = ReleasedSample.objects.bulk_create(rows)
    ReleasedRubric.objects.bulk_create(
        ReleasedRubric(sample=sample, key=key, criterion=text, traps=[])
        for sample in samples
        for key, text in CRITERIA.items()
    )
    return release


class VisionModels:
    """The simulated models under test and their judge."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str | None:
        return simulate_answers.SCRIPT.reply(model, messages, seed)


@contextmanager
def vision_models() -> Iterator[str]:
    """Serve the simulated models; yields their URL."""
    with run_in_background(make_app([VisionModels()], seed=SEED, retry_after=0.001)) as url:
        yield url
