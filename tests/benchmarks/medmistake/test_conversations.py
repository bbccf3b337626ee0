"""Conversation, committee and extraction step by step: what ends a visit, which replies are
refused, and how disagreement is pooled."""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from generation.llm.errors import BrokenReply
from generation.recipes.prompts import in_force, parse_prompt
from generation.recipes.recipe import Draft, Dropped, Record
from mhb_site.benchmarks.medmistake import (
    clustering,
    conversation,
    dimensions,
    lineage,
    presets,
    review,
    simulate_conversation,
    taxonomy,
)
from mhb_site.benchmarks.medmistake.committee_agreement import CommitteeAgreement
from mhb_site.benchmarks.medmistake.taxonomy import NAMES, TERMS
from review.rules.blocks import Dialogue, Table
from tests.benchmarks.medmistake.conversations import cases
from tests.benchmarks.medmistake.scenarios import CONVERSATION, MISTAKE, Models
from tests.benchmarks.models import CUT_OFF, scripted_reply

pytestmark = pytest.mark.plain
TURNS = CONVERSATION  # patient, doctor, patient, doctor
NAMES_OF = {
    "patient": "sim-patient", "doctor": "sim-reckless", "judge_1": "sim-judge", "judge_2": "sim-critic",
    "extractor": "sim-extractor",
}  # fmt: skip


def draft(**data: Any) -> Draft:
    content = {**cases(1)[0], "kind": "case"}
    return Draft(Record("case-1", "Cough", "en", content), data=data, settings=presets.DEFAULTS)


def run(step: Any, value: Draft, models: Any) -> Draft:
    drafts: list[Draft] = list(asyncio.run(step(value, models)))
    [draft_after] = drafts
    return draft_after


class ScriptedModels:
    """Models that give these replies in turn; `requests` records the messages they got."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.requests: list[list[tuple[str, str]]] = []

    def has(self, role: str) -> bool:
        return True

    def model(self, role: str) -> str:
        return f"model of {role}"

    async def ask(self, role: str, request: Any) -> Any:
        self.requests.append([(message.role, message.text) for message in request.messages])
        return scripted_reply(self.texts.pop(0), role)


def test_patient_and_doctor_each_see_the_other_as_user_and_the_patient_ends_the_visit() -> None:
    models = ScriptedModels("I cough.", "Since when?", "Nine days.\n[END]")
    value = draft()
    for _turn in range(3):
        assert conversation.STEPS[0].again(value)
        value = run(conversation.converse, value, models)
    assert not conversation.STEPS[0].again(value)
    assert [turn["text"] for turn in value.data["conversation"]] == ["I cough.", "Since when?", "Nine days."]
    assert (value.data["ended"], value.data["doctor"]) == ("patient", "model of doctor")
    assert models.requests[1][1:] == [("user", "I cough.")]
    assert models.requests[2][2:] == [("assistant", "I cough."), ("user", "Since when?")]
    assert "persona" in models.requests[0][1][1]
    assert "persona" not in str(models.requests[1]), "the doctor sees only what the patient says"


def test_the_turn_limit_ends_the_visit_and_a_mark_within_a_sentence_does_not() -> None:
    value = replace(draft(), settings={**presets.DEFAULTS, "most_turns": 2})
    models = ScriptedModels("I read [END] somewhere.", "Where? [END]")
    value = run(conversation.converse, value, models)
    assert conversation.STEPS[0].again(value)
    value = run(conversation.converse, value, models)
    assert value.data["ended"] == "limit"
    assert [turn["role"] for turn in value.data["conversation"]] == ["patient", "doctor"]


@pytest.mark.parametrize(
    "said",
    [
        "Bye. [END]",
        "Bye.\n[END]\n",
        "Bye. [end].",
        "Bye. [END]\nAnd then",
        "Bye. **[END]**",
        "Bye. 【END】。",
        "Bye.\n[ END ]",
        "Bye.\n[END] Goodbye",
        "Bye.\n**[END]** Take care, doctor.",
    ],
)
def test_the_mark_ends_the_visit_at_the_end_of_any_line_and_is_never_shown(said: str) -> None:
    value = draft()
    for _turn in range(3):
        value = run(conversation.converse, value, ScriptedModels(*["I cough.", "Since when?", said][_turn:]))
    assert value.data["ended"] == "patient"
    assert value.data["conversation"][-1]["text"].startswith("Bye.")
    assert "END" not in str(value.data["conversation"]).upper()


@pytest.mark.parametrize("speaker", [0, 1])
def test_half_a_turn_is_no_turn(speaker: int) -> None:
    said = ["I cough.", "Since when? If you also have a fe"]
    said[speaker] += CUT_OFF
    value = draft()
    for text in said[:speaker]:
        value = run(conversation.converse, value, ScriptedModels(text))
    with pytest.raises(BrokenReply, match="cut off at the token limit"):
        run(conversation.converse, value, ScriptedModels(said[speaker]))


def test_a_doctor_who_answers_nothing_ends_the_visit_and_each_try_counts() -> None:
    models = ScriptedModels("I cough.", "", " ", "")
    value = run(conversation.converse, draft(), models)
    for asked in (2, 3):
        value = run(conversation.converse, value, models)
        assert (value.data["asked"], len(value.data["conversation"])) == (asked, 1)
    with pytest.raises(Dropped, match="doctor answered nothing, 3 times"):
        run(conversation.converse, value, models)
    value = replace(draft(), settings={**presets.DEFAULTS, "most_turns": 4})
    models = ScriptedModels("I cough.", "", "Since when?", "")
    while conversation.STEPS[0].again(value):
        value = run(conversation.converse, value, models)
    assert (value.data["ended"], models.texts) == ("limit", [])


def test_a_visit_without_a_doctor_is_dropped() -> None:
    with pytest.raises(Dropped, match="before the doctor"):
        run(conversation.converse, draft(), ScriptedModels("Never mind.\n[END]"))


def scores(*rows: Mapping[str, Any]) -> conversation.Scores:
    return conversation.Scores(scores=tuple(conversation.Score(**row) for row in rows))


LOW = {"dimension": "allergies", "score": 2, "turns": [4], "note": "Did not ask."}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({**LOW, "dimension": "charm"}, "no dimension 'charm'"),
        ({**LOW, "score": 5}, "not from 1 to 4"),
        ({**LOW, "score": 0}, "not from 1 to 4"),
        ({**LOW, "note": " "}, "no note"),
        ({**LOW, "turns": []}, "Name the doctor's turns"),
        ({**LOW, "turns": [3]}, "not a turn of the doctor"),
        ({**LOW, "turns": [9]}, "not a turn of the doctor"),
    ],
)
def test_an_invalid_score_is_refused(wrong: Mapping[str, Any], message: str) -> None:
    known = dimensions.DIMENSIONS
    conversation._check_scores(scores(LOW), dimensions=known, turns=TURNS, scale=4, low=3)
    with pytest.raises(BrokenReply, match=message):
        conversation._check_scores(scores(wrong), dimensions=known, turns=TURNS, scale=4, low=3)


def test_duplicate_or_missing_scores_are_refused() -> None:
    known = dimensions.DIMENSIONS
    for rows, message in ([LOW, LOW], "twice"), ([], "No dimension"):
        with pytest.raises(BrokenReply, match=message):
            conversation._check_scores(scores(*rows), dimensions=known, turns=TURNS, scale=4, low=3)


def reply_with_mistake(**changes: Any) -> conversation.Mistakes:
    fields = {name: MISTAKE[name] for name in ("title", "description", "reason", "tags", "risk", "turns")}
    return conversation.Mistakes(
        mistakes=(conversation.Mistake(**{**fields, "category": "medication safety", **changes}),)
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"title": " "}, "title of mistake 1 is empty"),
        ({"category": "bad luck"}, "not one of CATEGORIES"),
        ({"tags": [str(n) for n in range(11)]}, "more than 10 tags"),
        ({"tags": ["x" * 2_001]}, "longer than 2000 characters"),
        ({"reason": "x" * 2_001}, "longer than 2000 characters"),
        ({"turns": []}, "Name the doctor's turns"),
        ({"turns": [1]}, "not a turn of the doctor"),
    ],
)
def test_an_invalid_mistake_is_refused(changes: Mapping[str, Any], message: str) -> None:
    conversation._check_mistakes(reply_with_mistake(), turns=TURNS)
    with pytest.raises(BrokenReply, match=message):
        conversation._check_mistakes(reply_with_mistake(**changes), turns=TURNS)
    with pytest.raises(BrokenReply, match="same title"):
        conversation._check_mistakes(conversation.Mistakes(mistakes=reply_with_mistake().mistakes * 2), turns=TURNS)
    with pytest.raises(BrokenReply, match="at most 40"):  # each would cost a dozen calls
        conversation._check_mistakes(conversation.Mistakes(mistakes=reply_with_mistake().mistakes * 41), turns=TURNS)


def test_dimensions_that_a_judge_leaves_out_are_requested_again_and_then_listed() -> None:
    keys = [dimension.key for dimension in dimensions.DIMENSIONS]
    first = {"scores": [{"dimension": key, "score": 4} for key in keys[:-2]]}
    second = {"scores": [{"dimension": keys[-2], "score": None}]}
    models = Models(scripted={"judge_1": [first, second, second]}, names=NAMES_OF)
    value = draft(conversation=TURNS, doctor="m", case={})
    value = run(lambda d, m: conversation._score_dimensions(d, m, judge="judge_1"), value, models)
    assert value.data["unscored"]["judge_1"] == keys[-2:]
    assert conversation._has_unscored(value, judge="judge_1")
    value = run(lambda d, m: conversation._score_dimensions(d, m, judge="judge_1"), value, models)
    assert value.data["unscored"]["judge_1"] == keys[-1:]
    value = replace(value, data={**value.data, "rounds": {"judge_1": 3}})
    assert not conversation._has_unscored(value, judge="judge_1"), "after three calls it is listed as not scored"
    titles = [block.title for block in lineage.lineage(value.data)]
    assert "Dimensions without a score" in titles


def test_the_scores_of_both_judges_are_pooled_by_the_setting() -> None:
    entry = {"turns": [4], "note": "Did not ask."}
    first_judge = {"allergies": {**entry, "score": 1}, "dosing": {**entry, "score": None}}
    second_judge = {"allergies": {**entry, "score": 4}}
    data = {"scores": {"judge_1": first_judge, "judge_2": second_judge}}
    pooled = {
        pooling: [
            (score["judge"], score["score"]) for score in conversation.low_scores(data, {"low": 3, "pooling": pooling})
        ]
        for pooling in ("either", "both", "mean")
    }
    assert pooled == {
        "either": [("judge_1", 1), ("judge_2", 4)],
        "both": [],
        "mean": [("judge_1", 1), ("judge_2", 4)],
    }


def test_scores_published_with_a_conversation_count_as_those_of_one_judge() -> None:
    content = {
        "kind": "conversation", "conversation": TURNS, "doctor": "m", "patient": {}, "encounter": {},
        "scores": [{"dimension": "Allergies", "category": "medication safety", "score": 2, "note": "No.", "judge": "x"}],
    }  # fmt: skip
    value = Draft(Record("c", "t", "en", content), settings=presets.DEFAULTS)
    value = run(conversation.take_conversation, value, ScriptedModels())
    assert not conversation.STEPS[2].applies(value)
    assert [score["judge"] for score in conversation.low_scores(value.data, presets.DEFAULTS)] == ["published"]


def test_a_conversation_without_a_low_score_is_dropped() -> None:
    with pytest.raises(Dropped, match="No dimension was scored 3 or less"):
        run(conversation.extract, draft(conversation=TURNS, scores={}, case={}), ScriptedModels())


def test_the_dimensions_are_a_data_file_in_the_papers_categories() -> None:
    assert len(NAMES) == len(TERMS) == 29
    assert {dimension.category for dimension in dimensions.DIMENSIONS} == set(NAMES)
    assert len({dimension.key for dimension in dimensions.DIMENSIONS}) == len(dimensions.DIMENSIONS)


def unit_vectors(*angles: float) -> list[Any]:
    return [np.array([[np.cos(a), np.sin(a)] for a in angles], dtype=np.float32)]


def groups(angles: Sequence[float], **changes: Any) -> list[tuple[int, tuple[int, ...]]]:
    values = {**presets.DEFAULTS, **changes}
    numbers = list(range(10, 10 + len(angles)))
    clusters = clustering._cluster_blocks(numbers, unit_vectors(*angles), [range(len(angles))], values)
    return sorted((group.lead, tuple(other.number for other in group.others)) for group in clusters)


def test_clusters_are_cut_at_the_distance_and_led_by_the_medoid() -> None:
    angles = (0.0, 0.3, 0.6, 1.57)  # cosine distances 0.04, 0.04, 0.17 and beyond
    assert groups(angles) == [(11, (10, 12)), (13, ())]
    assert groups(angles, distance=0.01) == [(n, ()) for n in (10, 11, 12, 13)]
    assert groups(angles, distance=2.0) == [(12, (10, 11, 13))]
    assert groups((0.0,)) == [(10, ())]


def test_a_zero_vector_joins_no_cluster() -> None:
    vectors = [np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]], dtype=np.float32)]
    clusters = clustering._cluster_blocks([1, 2, 3], vectors, [range(3)], presets.DEFAULTS)
    assert sorted(group.lead for group in clusters) == [1, 2]


class Arrivals:
    """Arrivals whose titles are angles, which `Embedder` turns into vectors."""

    def __init__(self, first: int, *angles: float) -> None:
        self.rows = [(n, draft(mistake={**MISTAKE, "title": str(angle)})) for n, angle in enumerate(angles, first)]

    async def __aiter__(self) -> AsyncIterator[tuple[int, Draft]]:
        for row in self.rows:
            yield row


class Embedder(Models):
    async def embed(self, role: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        angles = [float(text.partition(". ")[0]) for text in texts]
        return [(math.cos(angle), math.sin(angle)) for angle in angles]


def test_late_mistakes_are_compared_with_those_of_earlier_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "BATCH_SIZE", 2)  # so that the nearest is in another embedding call
    late, earlier = Arrivals(10, 0.0, 1.6, 3.1), Arrivals(1, 0.5, 0.1, 1.6, 0.3, 2.2)

    def matches(**changes: Any) -> list[tuple[int, int, float]]:
        models: Any = Embedder(names={"embedder": "sim-embedder"})
        near_pairs = asyncio.run(clustering.similar_ones(late, earlier, models, changes))
        return [(pair.number, pair.earlier, pair.distance) for pair in near_pairs]

    assert matches() == [(10, 2, pytest.approx(0.005, abs=1e-4)), (11, 3, 0.0)]
    assert matches(distance=0.001) == [(11, 3, 0.0)]
    assert matches(cluster="none") == []


def test_planted_mistakes_match_the_dimensions_and_have_distinct_titles() -> None:
    keys = {dimension.key for dimension in dimensions.DIMENSIONS}
    planted = simulate_conversation.PLANTED
    assert {mistake.dimension for mistake in planted} <= keys
    titles = [title for mistake in planted for title in mistake.titles]
    assert len(set(titles)) == len(titles)
    assert all(simulate_conversation.mistake_of(title) == mistake for mistake in planted for title in mistake.titles)


def test_the_lineage_marks_the_turns_of_the_mistake() -> None:
    data = {
        "conversation": TURNS,
        "mistake": {**MISTAKE, "members": [{"conversation": "c", "doctor": "d", "title": "t"}] * 2},
    }
    dialogue, *others = lineage.lineage(data)
    assert isinstance(dialogue, Dialogue)
    assert [bool(turn.mark) for turn in dialogue.turns] == [False, False, False, True]
    assert [block.title for block in others if isinstance(block, Table)] == ["Mistake", "Merged mistakes"]


@pytest.mark.parametrize("mark", ["[invented: 8.2 g/dl]", "【Invented：8.2 g/dl】"])
def test_a_value_that_the_patient_makes_up_is_marked_for_readers_and_not_for_the_doctor(mark: str) -> None:
    models = ScriptedModels(f"I am tired. My haemoglobin was {mark} in May.", "Why?", "Bye.\n[END]")
    value = draft()
    for _turn in range(3):
        value = run(conversation.converse, value, models)
    turns = value.data["conversation"]
    assert turns[0] == {
        "role": "patient",
        "text": "I am tired. My haemoglobin was 8.2 g/dl in May.",
        "invented": ["8.2 g/dl"],
    }
    assert "invented" not in str(models.requests[1])
    assert not any("invented" in turn for turn in turns[1:])
    [table] = review.invented_values(turns)
    assert isinstance(table, Table)
    assert table.rows == (("1", "8.2 g/dl"),)
    assert "[invented: " in conversation.SETS[""]["patient"].turns[0][1]


def test_every_score_and_every_risk_has_a_meaning_that_the_prompts_share_with_the_form() -> None:
    for scale in (4, 5):
        lines = dimensions.anchors(scale).splitlines()
        assert [line.split(":")[0] for line in lines] == [f"- {score}" for score in range(1, scale + 1)]
    assert all(level.about for level in taxonomy.RISKS)
    extract = conversation.SETS[""]["extract"].messages(
        case="", conversation="", notes="", categories="", risks="RISKS"
    )
    assert "RISKS" in extract[0].text
    assert "$anchors" in conversation.SETS[""]["committee"].turns[0][1]


def test_the_agreement_of_the_judges_is_a_weighted_kappa() -> None:
    agreement = CommitteeAgreement()
    for pair, n in (((1, 1), 4), ((2, 2), 3), ((3, 4), 2), ((4, 4), 5), ((1, 4), 1)):
        for _ in range(n):
            agreement.add(pair, not_scored=0)
    # By hand: the squared differences add up to 2 * 1 + 1 * 9 = 11.
    first, second = {1: 5, 2: 3, 3: 2, 4: 5}, {1: 4, 2: 3, 4: 8}
    expected = sum((a - b) ** 2 * n * m for a, n in first.items() for b, m in second.items()) / 15
    assert agreement.weighted_kappa == pytest.approx(1 - 11 / expected)
    assert CommitteeAgreement().weighted_kappa is None
    same = CommitteeAgreement()
    same.add((4, 4), not_scored=1)
    assert same.cells() == ("1", "1", "–", "0.00", "1")


def test_the_batch_shows_the_share_repeated_by_category() -> None:
    def data(category: str, replicated: bool, tested: bool = True) -> dict[str, Any]:
        attempt = {"results": [{}] if tested else [], "replicated": replicated}
        return {"mistake": {"category": category, "risk": "low"}, "doctor": "d", "attempts": [attempt]}

    rows = [data("a", True), data("a", False), data("b", True), data("b", False, tested=False)]
    [figure] = [block for block in lineage.analysis(rows) if "Figure 3" in str(getattr(block, "title", ""))]
    assert isinstance(figure, Table)
    assert figure.rows == (("a", "2", "1", "50.0 %"), ("b", "1", "1", "100.0 %"), ("all", "3", "2", "66.7 %"))


def test_planted_mistakes_fit_the_patients_of_the_demo() -> None:
    firsts = [f"{case['encounter_reason']} {case['persona']}" for case in cases(10)]
    planted = {mistake.key: mistake for mistake in simulate_conversation.PLANTED}
    seen = {first: [mistake.key for mistake in simulate_conversation.opportunities(first, 3)] for first in firsts}
    for first, keys in seen.items():
        assert len(keys) == simulate_conversation.OPPORTUNITIES
        for key in keys:
            assert not planted[key].fits or any(word in first for word in planted[key].fits)
    assert {key for keys in seen.values() for key in keys} == set(planted)


def own_dimensions(n: int) -> str:
    """The text of a prompt file with `n` dimensions of one's own, over all categories."""
    lines = [f"own-{number} | {NAMES[number % len(NAMES)]} | Does thing {number}." for number in range(n)]
    return "\n".join(["version: 105", "=== user", *lines])


def test_a_prompt_set_brings_dimensions_of_ones_own() -> None:
    prompt = parse_prompt("medmistake/mine@1/dimensions", own_dimensions(105))
    assert not list(dimensions.faults("dimensions", prompt))
    score = partial(conversation._score_dimensions, judge="judge_1")
    with in_force("medmistake", {"dimensions": prompt}):
        value = draft(conversation=TURNS, doctor="m", case={})
        assert len(conversation._judge_prompts(value, judge="judge_1")) == 3, "40 dimensions a call"
        entries = [{"dimension": f"own-{number}", "score": 4} for number in range(105)]
        entries[3] |= {"score": 1, "turns": [4], "note": "Wrong."}
        replies = [{"scores": entries[start : start + 40]} for start in (0, 40, 80)]
        models = Models(scripted={"judge_1": replies}, names=NAMES_OF)
        for _call in range(3):
            value = run(score, value, models)
        assert not conversation._has_unscored(value, judge="judge_1")
    [low] = conversation.low_scores(value.data, presets.DEFAULTS)
    assert (low["dimension"], low["category"]) == ("own-3", NAMES[3]), "also where the set is not in force"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a | communication", "is not 'key"),
        ("A b | communication | Speaks.", "is not 'key"),
        ("a | luck | Has it.", "none of the 29 categories"),
        ("a | communication | Speaks.\na | communication | Listens.", "twice"),
        ("# a | communication | Speaks.", "there are 0 dimensions"),
    ],
)
def test_a_faulty_list_of_dimensions_is_refused(line: str, message: str) -> None:
    prompt = parse_prompt("medmistake/dimensions", f"version: 1\n=== user\n{line}")
    [fault] = dimensions.faults("dimensions", prompt)
    assert message in fault
    assert not list(dimensions.faults("committee", prompt))
