"""Entailment: judged by a local model if there is one, else by a language model; nothing is
downloaded."""

import asyncio
import importlib.machinery
import sys
import types
from typing import Any

import pytest

from generation.llm.errors import BrokenReply
from mhb_site.benchmarks.medhallu import entailment
from mhb_site.benchmarks.medhallu.entailment import NliMistake, entailment_index, entailment_judge, score_both_ways
from tests.benchmarks.medhallu.helpers import TRUTH, WRONG, FakeModels, qa_draft

pytestmark = pytest.mark.plain


@pytest.fixture(autouse=True)
def _no_local_model(monkeypatch):
    monkeypatch.delenv(entailment.FOLDER_VARIABLE, raising=False)
    entailment.local_nli.cache_clear()


def test_a_language_model_is_asked_in_both_directions():
    models = FakeModels(scores={WRONG: (0.9, 0.2)})
    nli = entailment_judge(qa_draft(), models)
    assert asyncio.run(score_both_ways(nli, WRONG, TRUTH)) == {"forward": 0.9, "backward": 0.2, "least": 0.2}
    assert nli.name == "llm: entailment"
    assert {role for role, _request in models.requests} == {"entailment"}


@pytest.mark.parametrize(("bound", "role"), [({"generator", "critic"}, "critic"), ({"generator"}, "generator")])
def test_without_an_entailment_role_the_critic_or_the_generator_judges(bound, role):
    assert entailment_judge(qa_draft(), FakeModels(bound=frozenset(bound))).name == f"llm: {role}"


@pytest.mark.parametrize("percent", ["101", "-1", "50.5", '"high"', "null"])
def test_what_is_no_whole_number_of_per_cent_is_refused(percent):
    class Wrong(FakeModels):
        def reply_to(self, role: str, request: Any) -> str:
            return f'{{"percent": {percent}}}'

    with pytest.raises(BrokenReply):
        asyncio.run(entailment_judge(qa_draft(), Wrong()).score("a", "b"))


@pytest.mark.parametrize(
    ("labels", "index"),
    [
        ({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}, 2),
        ({"0": "entailment", "1": "neutral", "2": "contradiction"}, 0),
    ],
)
def test_the_index_of_the_label_comes_from_the_models_own_list(labels, index):
    assert entailment_index(labels) == index


def test_a_model_without_that_label_is_refused():
    with pytest.raises(NliMistake, match="Its labels: LABEL_0, LABEL_1"):
        entailment_index({0: "LABEL_0", 1: "LABEL_1"})


@pytest.fixture
def libraries(monkeypatch):
    """The parts of `transformers` and `torch` that are used; returns the recorded loads of
    models."""
    loaded: list[tuple[str, dict[str, Any]]] = []

    class Model:
        config = types.SimpleNamespace(id2label={0: "CONTRADICTION", 1: "ENTAILMENT", 2: "NEUTRAL"})

        @classmethod
        def from_pretrained(cls, folder: str, **options: Any) -> "Model":
            loaded.append((folder, options))
            return cls()

        def eval(self) -> None:
            pass

        def __call__(self, **pair: Any) -> Any:
            return types.SimpleNamespace(logits=[[0.1, 0.7 if pair["same"] else 0.2, 0.2]])

    class Tokenizer(Model):
        def __call__(self, *pair: Any, **options: Any) -> Any:
            assert options["truncation"]
            return {"same": pair[0] == pair[1]}

    class Nothing:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

    for name, parts in (
        ("transformers", {"AutoModelForSequenceClassification": Model, "AutoTokenizer": Tokenizer}),
        ("torch", {"inference_mode": Nothing, "softmax": lambda logits, dim: logits}),
    ):
        module = types.ModuleType(name)
        module.__dict__.update(parts, __spec__=importlib.machinery.ModuleSpec(name, None))
        monkeypatch.setitem(sys.modules, name, module)
    return loaded


def test_a_local_model_is_used_if_its_folder_is_configured_and_never_downloaded(libraries, monkeypatch, tmp_path):
    folder = tmp_path / "some-nli"
    folder.mkdir()
    monkeypatch.setenv(entailment.FOLDER_VARIABLE, str(folder))
    models = FakeModels()
    nli = entailment_judge(qa_draft(), models)
    assert asyncio.run(score_both_ways(nli, TRUTH, TRUTH))["least"] == 0.7
    assert asyncio.run(nli.score(WRONG, TRUTH)) == 0.2
    assert nli.name == "nli: some-nli"  # no path
    assert models.requests == []
    assert libraries == [(str(folder), {"local_files_only": True})] * 2  # model and tokenizer, each once


def test_a_missing_folder_is_an_error_without_a_silent_fallback(libraries, monkeypatch, tmp_path):
    monkeypatch.setenv(entailment.FOLDER_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(NliMistake, match="no such folder"):
        entailment_judge(qa_draft(), FakeModels())


def test_a_folder_without_a_model_is_an_error_that_does_not_reveal_the_path(libraries, monkeypatch, tmp_path):
    def fails(folder, **options):
        raise OSError(f"nothing in {folder}")

    monkeypatch.setattr(sys.modules["transformers"].AutoTokenizer, "from_pretrained", fails)
    monkeypatch.setenv(entailment.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(NliMistake) as caught:
        asyncio.run(entailment_judge(qa_draft(), FakeModels()).score("a", "b"))
    assert "could not be loaded (OSError)" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_without_the_library_the_language_model_is_asked(monkeypatch, tmp_path):
    monkeypatch.setenv(entailment.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert entailment_judge(qa_draft(), FakeModels()).name == "llm: entailment"
