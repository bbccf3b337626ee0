"""A toy benchmark ("is this claim false?") whose answers are read by code instead of a judge.

It is installed at run time, by the `toy` fixture, and is registered nowhere.
"""

import hashlib
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pytest
from django.utils import timezone

import mhb_site.benchmarks
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message
from generation.models import Facet, Release, ReleasedRubric, ReleasedSample
from generation.recipes import registry
from tests.engine import bare_release

TAXONOMY = """
TERMS = ()

def facets(task, traps, terms, content):
    return {"level": [content["level"]]}
"""

RECIPE = """
from generation.recipes.recipe import ModelRole, NewSample, Recipe

RECIPE = Recipe(
    label="Toy: claims",
    kinds=frozenset({"claim"}),
    roles=(ModelRole("generator", "Generator"),),
    steps=(),
    sample=lambda draft: NewSample("claim", "", "en", {}),
)
"""

PROTOCOL = """
import hashlib

from evaluation.protocol import Ask, DataSet, Decision, FacetView, Protocol, Rate
from generation.llm.types import Message

ANSWERED = {"tp": 1, "fp": 1, "tn": 1, "fn": 1}


def ask(sample, seed):
    dice = hashlib.sha256(f"{seed} {sample.key}".encode()).digest()[0]
    shown = ("true", "false")[dice % 2]
    claim = sample.content[shown]
    return [
        Ask((Message("user", text),), variant, {"shown": shown}, 0.25, 0.9, 8, f"toy/{variant}@1")
        for variant, text in (("plain", claim), ("hint", "Hint: " + sample.content["true"] + "\\n" + claim))
    ]


def read(sample, rubric, variant, about, text):
    answer = text.strip().rstrip(".").casefold()
    if answer == "unsure":
        return Decision("unsure", "")
    if answer not in ("yes", "no"):
        return Decision("unparsed", f"Neither yes nor no: {text!r}"[:200])
    right = (answer == "yes") == (about["shown"] == "false")
    return Decision(("t" if right else "f") + ("p" if answer == "yes" else "n"), "")


PROTOCOL = Protocol(
    label="Toy: claims",
    datasets=(
        DataSet("plain", "Without a hint", "claim", "plain"),
        DataSet("hinted", "With a hint", "claim", "hint"),
    ),
    ask=ask,
    read=read,
    rates=(
        Rate("f1", "F1", "The toy's F1.", {"tp": 2}, {"tp": 2, "fp": 1, "fn": 1}, frozenset(ANSWERED), False),
        Rate("accuracy", "Accuracy", "The toy's accuracy.", {"tp": 1, "tn": 1}, ANSWERED),
        Rate("response_rate", "Response rate", "Answered.", ANSWERED, {**ANSWERED, "unsure": 1}),
    ),
    facets=(FacetView("level", "Level", "heat", (("easy", "Easy"), ("hard", "Hard"))),),
    pooled=False,
    contrasts=(("hinted", "plain", "What the hint adds"),),
    verdicts={"tp": "rightly called false", "unsure": "not sure", "unparsed": "not readable"},
    wrong=frozenset({"fp", "fn"}),
)
"""

SEED = 7


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the toy benchmark for the duration of a test."""
    folder = tmp_path / "benchmarks" / "toy"
    folder.mkdir(parents=True)
    for name, text in {"__init__": "", "taxonomy": TAXONOMY, "recipe": RECIPE, "protocol": PROTOCOL}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(mhb_site.benchmarks, "__path__", [*mhb_site.benchmarks.__path__, str(folder.parent)])
    registry.module.cache_clear()
    yield
    registry.module.cache_clear()
    for name in [name for name in sys.modules if name.startswith("mhb_site.benchmarks.toy")]:
        del sys.modules[name]
    if hasattr(mhb_site.benchmarks, "toy"):
        del mhb_site.benchmarks.toy


def shown_claim(key: str, seed: int) -> str:
    """The claim that a run with this seed shows for a sample, drawn as in the toy's `ask`."""
    return ("true", "false")[hashlib.sha256(f"{seed} {key}".encode()).digest()[0] % 2]


def toy_release(count: int, name: str = "toy", *, without_level: Collection[int] = ()) -> Release:
    """A release of `count` claims, every third of them hard, created without a model or physician.

    The claims at the positions in `without_level` have no level.
    """
    existing_sample = ReleasedSample.objects.order_by("pk").first()
    version = existing_sample.version if existing_sample else bare_release(("dialogue", [["A1"]])).samples.get().version
    release = Release.objects.create(
        name=name, version=1, benchmark="toy", samples_count=count, rubrics_count=count,
        counts={
            "task": {"claim": {"samples": count, "rubrics": count}},
            "level": {level: {"samples": 1, "rubrics": 1} for level in ("easy", "hard")},
        },
        generators=[], sources=[], simulated=False, sha256="1" * 64, created_at=timezone.now(),
    )  # fmt: skip
    samples = ReleasedSample.objects.bulk_create(
        ReleasedSample(
            release=release,
            position=position,
            version=version,
            key=f"toy-{position:03}",
            task="claim",
            exported={
                "content": {
                    "true": f"Claim {position} holds.",
                    "false": f"Claim {position} fails.",
                    "level": level(position),
                }
            },
        )
        for position in range(count)
    )
    rubrics = ReleasedRubric.objects.bulk_create(
        ReleasedRubric(sample=sample, key="R1", criterion="Says whether it is false.", traps=[]) for sample in samples
    )
    Facet.objects.bulk_create(
        Facet(rubric=rubric, name="level", value=level(position))
        for position, rubric in enumerate(rubrics)
        if position not in without_level
    )
    return release


def level(at: int) -> str:
    return "hard" if at % 3 == 0 else "easy"


def reply_text(model: str, at: int, claim: str, *, hinted: bool) -> str:
    """The reply of a model to the claim with this number.

    With a hint it is right. Without one, sim-careful gives a mix of empty, unsure, unreadable,
    wrong and right replies.
    """
    truth = "Yes." if claim == "false" else "no"
    if hinted or model != "sim-careful":
        return truth
    return {0: "", 1: "Unsure", 2: "That depends.", 3: "no" if truth == "Yes." else "Yes."}.get(at % 8, truth)


class ToyModels:
    """The simulated models of the toy benchmark."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str:
        *hint, claim = messages[-1].text.splitlines()
        number, verb = claim.removeprefix("Claim ").rstrip(".").split()
        return reply_text(model, int(number), {"holds": "true", "fails": "false"}[verb], hinted=bool(hint))


@pytest.fixture(scope="session")
def claimants() -> Iterator[str]:
    """The base URL of the toy's simulated models."""
    with run_in_background(make_app([ToyModels()], seed=1, retry_after=0.001)) as url:
        yield url
