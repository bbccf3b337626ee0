"""One author for both answers: the true one is reworded first, and physicians compare the two."""

import json
from dataclasses import replace

import pytest

from generation.llm.errors import BrokenReply
from generation.probes.measuring import ProbeCase, measure
from generation.recipes.recipe import Dropped
from mhb_site.benchmarks.medhallu import presets, review, rewording
from mhb_site.benchmarks.medhallu.recipe import labelled
from mhb_site.benchmarks.medhallu.rewording import Rewording, check_rewording
from tests.benchmarks.medhallu.helpers import QUESTION, TRUTH, SimulatedModels, make_sample, qa_draft
from tests.profile import public

pytestmark = pytest.mark.plain


def test_all_that_follows_takes_the_rewording_for_the_true_answer() -> None:
    sample = make_sample(qa_draft("one-author"), SimulatedModels())
    content = sample.content
    assert content["truth_source"] == TRUTH
    assert content["truth"] != TRUTH
    assert sample.provenance["true answer"] == "reworded by the generator"
    spec = review.case(sample, "sample", 1)
    assert spec.form.questions[0].key == "same"
    assert spec.form.reasons[0].code == "truth-changed"
    assert "truth_source" not in make_sample(qa_draft("ours"), SimulatedModels()).content


def test_a_rewording_is_refused_with_its_faults() -> None:
    for answer, words in (
        ("", "empty"),
        (TRUTH, "word for word"),
        (f" {TRUTH.upper().replace(',', ';')} ", "word for word"),
        ("Short.", "has 1 words"),
        (f"{TRUTH} This answer is deliberately false.", "tells that it is a test"),
    ):
        with pytest.raises(BrokenReply, match=words):
            check_rewording(Rewording(answer=answer), truth=TRUTH, question=QUESTION, share=0.1)


def test_the_true_answer_of_an_unchanged_draft_is_the_articles() -> None:
    assert presets.truth_of(qa_draft()) == TRUTH
    assert presets.truth_of(qa_draft(data={"truth": "In other words."})) == "In other words."
    assert not rewording.is_reworded(qa_draft())
    assert rewording.is_reworded(qa_draft("one-author"))
    assert issubclass(Dropped, Exception)


def test_words_tell_answers_of_one_author_half_as_well_as_those_of_two() -> None:
    rows = json.loads(public("pubmedqa/ori_pqal.json").read_text(encoding="utf-8"))
    tells = {}
    for preset in ("paper", "one-author"):
        cases = []
        for pmid, row in list(rows.items())[:40]:
            draft = qa_draft(preset)
            content = {**draft.record.content, "question": row["QUESTION"], "answer": row["LONG_ANSWER"], "pmid": pmid}
            record = replace(draft.record, external_id=pmid, content=content)
            answers = labelled(make_sample(replace(draft, record=record), SimulatedModels()).content)
            assert answers is not None
            cases.append(ProbeCase(pmid, pmid, answers))
        words = next(result for result in measure(cases).probes if result.name == "words")
        assert words.accuracy is not None
        tells[preset] = words.accuracy - 0.5
    assert tells["paper"] > 0.4
    assert abs(tells["one-author"]) <= tells["paper"] / 2
