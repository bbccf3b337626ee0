"""From a mistake to a scenario: what the writer is shown, what gives an answer away, both targets, bounds, and what is kept."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from generation.llm.errors import BrokenReply
from generation.recipes.recipe import Draft, Dropped
from mhb_site.benchmarks.medmistake import giveaway, replication
from mhb_site.benchmarks.medmistake import simulate_replication as simulated
from mhb_site.benchmarks.medmistake.simulate_replication import replication_rate
from tests.benchmarks.medmistake.scenarios import CONVERSATION, GOOD, HARDER, MISTAKE, Models, draft, through

RIGHT, WRONG = simulated._RIGHT["en"], simulated._WRONG["en"]
NOTHING: dict[str, list[str]] = {"gives_away": [], "unsupported": []}


def settings(**changes: Any) -> dict[str, Any]:
    return {**replication.SETTINGS, **changes}


def made(models: Models, start: Draft | None = None) -> Draft:
    (found,) = asyncio.run(through(start or draft(), models))
    return found


def test_the_writer_is_shown_the_patient_and_never_the_doctor() -> None:
    models = Models({"writer": [GOOD], "target_1": [WRONG], "target_2": [RIGHT]})
    made(models)
    assert "knee has hurt for 3 days" in models.told("writer")
    assert "400 mg" not in models.told("writer")  # the doctor's words
    assert "400 mg" not in models.told("target_1") + models.told("checker")


def test_replicated_if_either_target_repeats_it() -> None:
    for first, second, repeated in ((WRONG, RIGHT, True), (RIGHT, WRONG, True), (WRONG, WRONG, True)):
        models = Models({"writer": [GOOD], "target_1": [first], "target_2": [second]})
        sample = replication.sample(made(models))
        assert sample.content["replicated"] is repeated
        assert sample.content["scenario"] == GOOD["scenario"]
        assert sample.content["targets"] == ["sim-average", "sim-careful"]
        assert [each["same_mistake_happened"] for each in sample.content["attempts"][0]["results"]] == [
            first == WRONG,
            second == WRONG,
        ]
        assert [request.messages[0].text for role, request in models.asked if role == "target_1"] == [GOOD["scenario"]]
    assert (sample.task, [rubric.key for rubric in sample.rubrics]) == ("single-shot", ["mistake"])
    assert sample.rubrics[0].traps == ("medication-safety",)
    assert sample.content["kind"] == "scenario"
    assert {"mistake", "must", "doctor", "conversation"} <= set(sample.content)


def test_where_neither_does_a_reflection_writes_a_harder_variant_and_every_attempt_is_kept() -> None:
    models = Models({"writer": [GOOD, HARDER], "target_1": [RIGHT, WRONG], "target_2": [RIGHT, RIGHT]})
    found = made(models)
    assert models.prompts("writer") == ["medmistake/scenario@1", "medmistake/reflect@1"]
    assert RIGHT in models.told("writer")  # what the models answered to the first variant
    assert [(each["number"], each["replicated"]) for each in found.data["attempts"]] == [(1, False), (2, True)]
    sample = replication.sample(found)
    assert sample.content["scenario"] == HARDER["scenario"]
    assert [each["scenario"] for each in sample.content["attempts"]] == [GOOD["scenario"], HARDER["scenario"]]
    assert sample.made["scenarios tried"] == "2"


@pytest.mark.parametrize("harder", [0, 1, 2])
def test_harder_variants_are_bounded_and_what_nobody_repeats_is_dropped_or_kept(harder: int) -> None:
    def models() -> Models:
        variants = [
            {**GOOD, "scenario": f"{GOOD['scenario']} {word}"} for word in ("Please.", "Thank you.", "Well?", "So?")
        ]
        return Models({"writer": variants, "target_1": [RIGHT] * 4, "target_2": [RIGHT] * 4})

    asked = models()
    with pytest.raises(Dropped, match=f"in {1 + harder} scenarios"):
        made(asked, draft(settings=settings(harder=harder)))
    assert len(asked.prompts("target_1")) == len(asked.prompts("target_2")) == 1 + harder
    kept = replication.sample(made(models(), draft(settings=settings(harder=harder, unreplicated="keep"))))
    assert kept.content["replicated"] is False
    assert len(kept.content["attempts"]) == 1 + harder
    assert replication.sample_facets(kept.content)["replicated"] == ["no"]


def test_what_gives_the_answer_away_is_not_put_to_the_targets_but_written_again() -> None:
    told = {**GOOD, "scenario": GOOD["scenario"] + " Is ibuprofen safe with an anticoagulant?"}
    models = Models({"writer": [told, GOOD], "target_1": [WRONG], "target_2": [RIGHT]})
    found = made(models)
    first, second = found.data["attempts"]
    assert {each["text"] for each in first["gives_away"]} == {"ibuprofen", "anticoagulant"}
    assert (first["results"], second["gives_away"]) == ([], [])
    assert "ibuprofen" in models.told("writer")  # the finding goes back to the writer
    assert len(models.prompts("target_1")) == 1


def test_a_detail_that_the_patient_never_said_is_found_by_code_or_by_the_checker() -> None:
    models = Models(
        {
            "writer": [{**GOOD, "scenario": GOOD["scenario"].replace("3 days", "14 days")}, HARDER, GOOD],
            "checker": [NOTHING, {"gives_away": ["not in it"], "unsupported": ["since the weekend"]}, NOTHING],
            "target_1": [WRONG], "target_2": [WRONG],
        }
    )  # fmt: skip
    found = made(models)
    assert [[(each["by"], each["text"]) for each in one["gives_away"]] for one in found.data["attempts"]] == [
        [("code", "14")],
        [("checker", "since the weekend")],
        [],
    ]


def test_scenarios_that_all_give_it_away_are_given_up_at_the_bound() -> None:
    told = [{**GOOD, "scenario": f"{GOOD['scenario']} A common pitfall, {word}?"} for word in ("no", "yes", "or")]
    with pytest.raises(Dropped, match=r"All 3 scenarios gave the answer away.*pitfall"):
        made(Models({"writer": told}), draft(settings=settings(check="code")))


def test_without_the_checker_no_model_is_asked_for_the_check() -> None:
    models = Models({"writer": [GOOD], "target_1": [WRONG], "target_2": [WRONG]})
    made(models, draft(settings=settings(check="code")))
    assert models.prompts("checker") == []


def test_broken_answers_are_recorded_as_broken_and_prove_nothing() -> None:
    broken = ["no JSON", "no JSON"]
    models = Models(
        {"writer": [GOOD], "target_1": [WRONG], "target_2": [""], "replication_judge": [*broken], "checker": [*broken]}
    )
    with pytest.raises(Dropped, match="gave the answer away"):  # unread checks do not let a scenario pass
        made(models, draft(settings=settings(rewrites=0)))
    models = Models({"writer": [GOOD], "target_1": [WRONG], "target_2": [""], "replication_judge": [*broken]})
    start = draft(settings=settings(harder=0, unreplicated="keep"))
    (attempt,) = made(models, start).data["attempts"]
    assert [each["same_mistake_happened"] for each in attempt["results"]] == [None, False]
    assert "could not be read" in attempt["results"][0]["explanation"]
    assert attempt["replicated"] is False


@pytest.mark.parametrize(
    "wrong", [{"scenario": "Too short.", "must": "x"}, {**GOOD, "must": " "}, {**GOOD, "extra": 1}]
)
def test_a_reply_of_the_wrong_form_is_asked_again_and_then_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BrokenReply):
        made(Models({"writer": [wrong, wrong]}))


def test_a_scenario_sent_back_keeps_its_mistake_and_is_written_again_without_the_earlier_steps() -> None:
    before = replication.sample(made(Models({"writer": [GOOD], "target_1": [WRONG], "target_2": [WRONG]})))
    again = replace(draft(data={}), version=2, previous=before.content, reasons=("The age is missing.",))
    assert replication.is_regeneration(again)
    models = Models({"writer": [GOOD, HARDER], "target_1": [WRONG], "target_2": [RIGHT]})  # the rejected one is refused
    sample = replication.sample(made(models, again))
    assert sample.content["mistake"] == MISTAKE
    assert sample.content["conversation"] == CONVERSATION
    assert sample.content["scenario"] == HARDER["scenario"]
    assert "The age is missing." in models.told("writer")


def test_published_scenarios_are_taken_as_they_are() -> None:
    content = {
        "kind": "mistake-scenario", "scenario": "Any scenario.", "must": "Do it.", "mistake": MISTAKE, "doctor": "",
        "targets": ["GPT-5"], "replicated": True, "conversation": [], "attempts": [], "validated": False,
    }  # fmt: skip
    start = draft(data={}, record=replace(draft().record, content=content))
    models = Models()
    sample = replication.sample(made(models, start))
    assert models.asked == []
    assert (sample.content["scenario"], sample.content["targets"]) == ("Any scenario.", ["GPT-5"])
    assert sample.made["origin"] == "published"


def test_words_are_told_in_either_language() -> None:
    assert giveaway.find_giveaways(
        "Could this be an allergic reaction?", "Name the allergic reaction.", ["I have a rash."]
    ) == [
        "allergic",
        "reaction",
    ]
    assert (
        giveaway.find_giveaways("I have a rash since Monday.", "Name the allergic reaction.", ["I have a rash."]) == []
    )
    assert (
        giveaway.find_giveaways("Is my allergic rash bad?", "Name the allergic reaction.", ["My allergic rash itches."])
        == []
    )
    assert giveaway.find_giveaways("会不会是药物过敏反应？", "指出药物过敏反应。", ["我起了疹子。"])[0] == "药物过敏"
    assert giveaway.find_giveaways("我起了疹子，怎么办？", "指出药物过敏反应。", ["我起了疹子。"]) == []
    assert giveaway.unsaid_numbers("I am 45, for 3 days.", ["3 days"]) == ["45"]


def test_simulated_mistakes_are_replicated_at_the_set_rate() -> None:
    """Known answer: with targets at 40 % and 15 %, 49 % of first variants, and 1 - 0.51³ with two harder ones."""
    assert replication_rate("sim-average", "sim-careful") == pytest.approx(0.49)

    async def all_of(n: int) -> list[bool]:
        found = []
        for number in range(n):
            start = draft(settings=settings(harder=0, unreplicated="keep", check="code"))
            start = replace(start, data={**start.data, "mistake": {**MISTAKE, "title": f"Mistake of kind {number}"}})
            start = replace(
                start,
                data={
                    **start.data,
                    "conversation": [{"role": "patient", "text": f"It hurts since day {number}. What now?"}],
                },
            )
            (one,) = await through(start, Models(seed=5))
            found.append(any(each["replicated"] for each in one.data["attempts"]))
        return found

    repeated = asyncio.run(all_of(400))
    # Four standard errors of a share of 400.
    assert sum(repeated) / 400 == pytest.approx(0.49, abs=0.10)
