"""A benchmark whose answers are read by code (is this claim false?), put there at run time and announced nowhere."""

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
    said = text.strip().rstrip(".").casefold()
    if said == "unsure":
        return Decision("unsure", "")
    if said not in ("yes", "no"):
        return Decision("unparsed", f"Neither yes nor no: {text!r}"[:200])
    right = (said == "yes") == (about["shown"] == "false")
    return Decision(("t" if right else "f") + ("p" if said == "yes" else "n"), "")


PROTOCOL = Protocol(
    label="Toy: claims",
    datasets=(
        DataSet("plain", "Without a hint", "claim", "plain"),
        DataSet("hinted", "With a hint", "claim", "hint"),
    ),
    ask=ask,
    read=read,
    rates=(
        Rate("f1", "F1", "The toy's F1.", {"tp": 2}, {"tp": 2, "fp": 1, "fn": 1}, frozenset(ANSWERED), "bootstrap", False),
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
    """A benchmark more."""
    folder = tmp_path / "benchmarks" / "toy"
    folder.mkdir(parents=True)
    for name, text in {"__init__": "", "taxonomy": TAXONOMY, "protocol": PROTOCOL}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(mhb_site.benchmarks, "__path__", [*mhb_site.benchmarks.__path__, str(folder.parent)])
    registry.module.cache_clear()
    yield
    registry.module.cache_clear()
    for name in [name for name in sys.modules if name.startswith("mhb_site.benchmarks.toy")]:
        del sys.modules[name]
    if hasattr(mhb_site.benchmarks, "toy"):
        del mhb_site.benchmarks.toy


def shown(key: str, seed: int) -> str:
    """The claim of a sample that a run of this seed shows: what the toy's `ask` draws, said once more."""
    return ("true", "false")[hashlib.sha256(f"{seed} {key}".encode()).digest()[0] % 2]


def toy_release(count: int, name: str = "toy", *, bare_ones: Collection[int] = ()) -> Release:
    """A release of so many claims, every third of which is hard, made without any model or physician.

    Those of `bare_ones` are of no level.
    """
    bare = ReleasedSample.objects.order_by("pk").first()
    version = bare.version if bare else bare_release(("dialogue", [["A1"]])).samples.get().version
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
            position=at,
            version=version,
            key=f"toy-{at:03}",
            task="claim",
            exported={"content": {"true": f"Claim {at} holds.", "false": f"Claim {at} fails.", "level": level(at)}},
        )
        for at in range(count)
    )
    rubrics = ReleasedRubric.objects.bulk_create(
        ReleasedRubric(sample=sample, key="R1", criterion="Says whether it is false.", traps=[]) for sample in samples
    )
    Facet.objects.bulk_create(
        Facet(rubric=rubric, name="level", value=level(at)) for at, rubric in enumerate(rubrics) if at not in bare_ones
    )
    return release


def level(at: int) -> str:
    return "hard" if at % 3 == 0 else "easy"


def said(model: str, at: int, claim: str, *, hinted: bool) -> str:
    """What a model says of the claim of this number: with a hint the truth; without, sim-careful says all sorts of things."""
    truth = "Yes." if claim == "false" else "no"
    if hinted or model != "sim-careful":
        return truth
    return {0: "", 1: "Unsure", 2: "That depends.", 3: "no" if truth == "Yes." else "Yes."}.get(at % 8, truth)


class Says:
    """The toy's simulated models."""

    def reply(self, model: str, messages: Sequence[Message], seed: int) -> str:
        *hint, claim = messages[-1].text.splitlines()
        number, which = claim.removeprefix("Claim ").rstrip(".").split()
        return said(model, int(number), {"holds": "true", "fails": "false"}[which], hinted=bool(hint))


@pytest.fixture(scope="session")
def claimants() -> Iterator[str]:
    """The base URL of the toy's simulated models."""
    with run_in_background(make_app([Says()], seed=1, retry_after=0.001)) as url:
        yield url
