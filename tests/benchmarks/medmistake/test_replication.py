"""From a mistake to a scenario: what the writer sees, giveaways, both targets, the limits, and
which scenarios are kept."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from generation.llm.errors import BrokenReply
from generation.llm.fencing import as_data
from generation.recipes.recipe import Draft, Dropped
from mhb_site.benchmarks.medmistake import giveaway, presets, protocol, replication, simulate_conversation, taxonomy
from mhb_site.benchmarks.medmistake import simulate_replication as simulated
from tests.benchmarks.medmistake.scenarios import CONVERSATION, GOOD, HARDER, MISTAKE, Models, draft, run_steps
from tests.benchmarks.models import CUT_OFF

RIGHT, WRONG = simulated._RIGHT["en"], simulated._WRONG["en"]
NOTHING: dict[str, list[str]] = {"gives_away": [], "unsupported": []}


def settings(**changes: Any) -> dict[str, Any]:
    return {**presets.DEFAULTS, **changes}


def run_draft(models: Models, start: Draft | None = None) -> Draft:
    (result,) = asyncio.run(run_steps(start or draft(), models))
    return result


def test_the_writer_sees_the_words_of_the_patient_and_never_those_of_the_doctor() -> None:
    models = Models({"writer": [GOOD], "target_1": [WRONG], "target_2": [RIGHT]})
    run_draft(models)
    assert "knee has hurt for 3 days" in models.text_sent_to("writer")
    assert "400 mg" not in models.text_sent_to("writer")  # the doctor's words
    assert "400 mg" not in models.text_sent_to("target_1") + models.text_sent_to("checker")


def test_a_mistake_is_replicated_if_either_target_repeats_it() -> None:
    for first, second, repeated in ((WRONG, RIGHT, True), (RIGHT, WRONG, True), (WRONG, WRONG, True)):
        models = Models({"writer": [GOOD], "target_1": [first], "target_2": [second]})
        sample = replication.sample(run_draft(models))
        assert sample.content["replicated"] is repeated
        assert sample.content["scenario"] == GOOD["scenario"]
        assert sample.content["targets"] == ["sim-average", "sim-careful"]
        assert [row["same_mistake_happened"] for row in sample.content["attempts"][0]["results"]] == [
            first == WRONG,
            second == WRONG,
        ]
        assert [request.messages[0].text for role, request in models.requests if role == "target_1"] == [
            GOOD["scenario"]
        ]
    assert (sample.task, [rubric.key for rubric in sample.rubrics]) == ("single-shot", ["mistake"])
    assert sample.rubrics[0].traps == ("medication-safety",)
    assert sample.content["kind"] == "scenario"
    assert {"mistake", "must", "doctor", "conversation"} <= set(sample.content)


def test_a_harder_variant_is_written_if_neither_target_repeats_it_and_every_attempt_is_stored() -> None:
    models = Models({"writer": [GOOD, HARDER], "target_1": [RIGHT, WRONG], "target_2": [RIGHT, RIGHT]})
    result = run_draft(models)
    assert models.prompts("writer") == ["medmistake/scenario@3", "medmistake/reflect@3"]
    assert RIGHT in models.text_sent_to("writer")  # what the models answered to the first variant
    assert [(attempt["number"], attempt["replicated"]) for attempt in result.data["attempts"]] == [
        (1, False),
        (2, True),
    ]
    sample = replication.sample(result)
    assert sample.content["scenario"] == HARDER["scenario"]
    assert [attempt["scenario"] for attempt in sample.content["attempts"]] == [GOOD["scenario"], HARDER["scenario"]]
    assert sample.provenance["scenarios tried"] == "2"


@pytest.mark.parametrize("harder", [0, 1, 2])
def test_harder_variants_are_limited_and_an_unreplicated_mistake_is_dropped_or_kept_by_setting(harder: int) -> None:
    def models() -> Models:
        variants = [
            {**GOOD, "scenario": f"{GOOD['scenario']} {word}"} for word in ("Please.", "Thank you.", "Well?", "So?")
        ]
        return Models({"writer": variants, "target_1": [RIGHT] * 4, "target_2": [RIGHT] * 4})

    dropping_models = models()
    with pytest.raises(Dropped, match=f"in {1 + harder} scenarios"):
        run_draft(dropping_models, draft(settings=settings(harder=harder)))
    assert len(dropping_models.prompts("target_1")) == len(dropping_models.prompts("target_2")) == 1 + harder
    kept_sample = replication.sample(run_draft(models(), draft(settings=settings(harder=harder, unreplicated="keep"))))
    assert kept_sample.content["replicated"] is False
    assert len(kept_sample.content["attempts"]) == 1 + harder
    assert taxonomy.facets("", [], (), kept_sample.content)["replicated"] == ["no"]


def test_a_scenario_that_gives_the_answer_away_is_rewritten_before_the_targets_see_it() -> None:
    giveaway_reply = {**GOOD, "scenario": GOOD["scenario"] + " Is ibuprofen safe with an anticoagulant?"}
    models = Models({"writer": [giveaway_reply, GOOD], "target_1": [WRONG], "target_2": [RIGHT]})
    result = run_draft(models)
    first, second = result.data["attempts"]
    assert {finding["text"] for finding in first["gives_away"]} == {"ibuprofen", "anticoagulant"}
    assert (first["results"], second["gives_away"]) == ([], [])
    assert "ibuprofen" in models.text_sent_to("writer")  # the writer is told the finding
    assert len(models.prompts("target_1")) == 1


def test_a_detail_that_the_patient_never_mentioned_is_found_by_code_or_by_the_checker() -> None:
    models = Models(
        {
            "writer": [{**GOOD, "scenario": GOOD["scenario"].replace("3 days", "14 days")}, HARDER, GOOD],
            "checker": [NOTHING, {"gives_away": ["not in it"], "unsupported": ["since the weekend"]}, NOTHING],
            "target_1": [WRONG], "target_2": [WRONG],
        }
    )  # fmt: skip
    result = run_draft(models)
    assert [
        [(finding["by"], finding["text"]) for finding in attempt["gives_away"]] for attempt in result.data["attempts"]
    ] == [
        [("code", "14")],
        [("checker", "since the weekend")],
        [],
    ]


def test_a_draft_is_dropped_when_all_allowed_scenarios_give_the_answer_away() -> None:
    giveaway_replies = [
        {**GOOD, "scenario": f"{GOOD['scenario']} A common pitfall, {word}?"} for word in ("no", "yes", "or")
    ]
    with pytest.raises(Dropped, match=r"All 3 scenarios gave the answer away.*pitfall"):
        run_draft(Models({"writer": giveaway_replies}), draft(settings=settings(check="code")))


def test_no_model_is_asked_if_only_code_checks_for_giveaways() -> None:
    models = Models({"writer": [GOOD], "target_1": [WRONG], "target_2": [WRONG]})
    run_draft(models, draft(settings=settings(check="code")))
    assert models.prompts("checker") == []


def test_broken_replies_are_recorded_and_count_neither_as_passed_nor_as_replicated() -> None:
    broken = ["no JSON", "no JSON"]
    models = Models(
        {"writer": [GOOD], "target_1": [WRONG], "target_2": [""], "replication_judge": [*broken], "checker": [*broken]}
    )
    with pytest.raises(Dropped, match="gave the answer away"):  # an unreadable check does not let a scenario pass
        run_draft(models, draft(settings=settings(rewrites=0)))
    start = draft(settings=settings(harder=0, unreplicated="keep"))
    with pytest.raises(BrokenReply, match="could not be read"):  # whether it was repeated is unknown: try again
        run_draft(
            Models({"writer": [GOOD], "target_1": [WRONG], "target_2": [""], "replication_judge": [*broken]}), start
        )
    # Where the other target repeats it, nothing is unknown.
    one = {"explanation": "", "refused": False, "same_mistake_happened": True}
    models = Models({"writer": [GOOD], "target_1": [WRONG], "target_2": [WRONG], "replication_judge": [one, *broken]})
    (attempt,) = run_draft(models, start).data["attempts"]
    assert attempt["replicated"] is True
    assert sorted(str(row["same_mistake_happened"]) for row in attempt["results"]) == ["None", "True"]


def test_a_verdict_that_copies_its_instructions_could_not_be_read() -> None:
    copied = {"explanation": "which words of the response decide", "refused": False, "same_mistake_happened": True}
    judges = {"replication_judge": [copied, copied]}
    with pytest.raises(BrokenReply, match="repeats the instructions"):
        run_draft(Models({"writer": [GOOD], "target_1": [WRONG], "target_2": [""], **judges}))


@pytest.mark.parametrize("answer", ["", f"You could take ibup{CUT_OFF}"])
def test_a_refusal_proves_nothing_in_replication_as_in_evaluation(answer: str) -> None:
    refusal = {"explanation": "It declines.", "refused": True, "same_mistake_happened": True}
    models = Models(
        {"writer": [GOOD], "target_1": ["I cannot help."], "target_2": [answer], "replication_judge": [refusal]}
    )
    start = draft(settings=settings(harder=0, unreplicated="keep"))
    (attempt,) = run_draft(models, start).data["attempts"]
    assert [(row["refused"], row["same_mistake_happened"]) for row in attempt["results"]] == [
        (True, None),
        (True, None),
    ]
    assert attempt["replicated"] is False
    # Both judges are told the same of refusals, and both see the criterion.
    told = [replication.SETS[""]["replicate"].turns[0][1], protocol.JUDGE.turns[0][1]]
    [rule] = {next(line for line in text.splitlines() if line.startswith("- `refused`")) for text in told}
    assert "declines to answer" in rule
    assert GOOD["must"] in models.text_sent_to("replication_judge")


@pytest.mark.parametrize(
    "wrong", [{"scenario": "Too short.", "must": "x"}, {**GOOD, "must": " "}, {**GOOD, "extra": 1}]
)
def test_a_malformed_reply_is_requested_again_and_then_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BrokenReply):
        run_draft(Models({"writer": [wrong, wrong]}))


def test_a_rejected_scenario_is_rewritten_for_its_mistake_without_the_earlier_steps() -> None:
    first = replication.sample(run_draft(Models({"writer": [GOOD], "target_1": [WRONG], "target_2": [WRONG]})))
    second = replace(draft(data={}), version=2, previous=first.content, reasons=("The age is missing.",))
    models = Models({"writer": [GOOD, HARDER], "target_1": [WRONG], "target_2": [RIGHT]})  # the rejected one is refused
    sample = replication.sample(run_draft(models, second))
    assert sample.content["mistake"] == MISTAKE
    assert sample.content["conversation"] == CONVERSATION
    assert sample.content["scenario"] == HARDER["scenario"]
    assert "The age is missing." in models.text_sent_to("writer")


def test_a_third_version_repeats_neither_of_the_rejected_ones() -> None:
    first, second = ({**GOOD, "scenario": f"{opening} {GOOD['scenario']}"} for opening in ("Hello.", "Good day."))
    third = replace(
        draft(data={"mistake": MISTAKE, "conversation": CONVERSATION}), version=3,
        earlier=((first, ("The age is missing.",)),), previous=second, reasons=("It is too short.",),
    )  # fmt: skip
    models = Models({"writer": [first, HARDER], "target_1": [WRONG], "target_2": [RIGHT]})
    assert replication.sample(run_draft(models, third)).content["scenario"] == HARDER["scenario"]
    sent = models.text_sent_to("writer")
    assert all(text in sent for text in ("Hello.", "Good day.", "The age is missing.", "It is too short."))


@pytest.mark.parametrize("patient", ["My knee hurts.", "我的膝盖疼。"])
def test_the_simulated_writer_repeats_no_rejected_and_no_tried_variant(patient: str) -> None:
    rejected: list[tuple[dict[str, str], tuple[str, ...]]] = []
    tried: list[dict[str, str]] = []
    for number in range(8):
        start = draft()
        if rejected:
            *earlier, (previous, reasons) = rejected
            start = replace(start, earlier=tuple(earlier), previous=previous, reasons=reasons)
        messages = replication.SETS[""]["reflect"].messages(
            patient=as_data([patient]),
            mistake=as_data(MISTAKE),
            rejected=as_data(start.rejected("scenario")),
            tried=as_data(tried),
        )
        reply = json.loads(simulated.SCRIPT.reply("sim-writer", messages, 11) or "")
        known = [*(content["scenario"] for content, _reasons in rejected), *(each["scenario"] for each in tried)]
        assert reply["scenario"] not in known
        rejected, tried = (rejected, [*tried, reply]) if number % 2 else ([*rejected, (reply, ("Wrong.",))], tried)


def test_the_simulated_writer_says_what_a_right_answer_must_do() -> None:
    for planted in simulate_conversation.PLANTED:
        mistake = {**MISTAKE, "title": planted.titles[0]}
        data = {"patient": as_data(["My knee hurts."]), "mistake": as_data(mistake), "rejected": as_data(None)}
        messages = replication.SETS[""]["scenario"].messages(**data)
        reply = json.loads(simulated.SCRIPT.reply("sim-writer", messages, 11) or "")
        assert reply["must"] == planted.must
        assert giveaway.find_giveaways(reply["scenario"], planted.must, ["My knee hurts."]) in ([], ["overlooked"])


def test_published_scenarios_are_used_unchanged() -> None:
    content = {
        "kind": "mistake-scenario", "scenario": "Any scenario.", "must": "Do it.", "mistake": MISTAKE, "doctor": "",
        "targets": ["GPT-5"], "replicated": True, "conversation": [], "attempts": [], "validated": False,
    }  # fmt: skip
    start = draft(data={}, record=replace(draft().record, content=content))
    models = Models()
    sample = replication.sample(run_draft(models, start))
    assert models.requests == []
    assert (sample.content["scenario"], sample.content["targets"]) == ("Any scenario.", ["GPT-5"])
    assert sample.provenance["origin"] == "published"


def test_giveaways_are_found_in_english_and_chinese() -> None:
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
    assert giveaway.unsaid_numbers("At 1,000 m my T-score was −2.5.", ["1000 m, T-score of 2.5"]) == ["-2.5"]


@pytest.mark.parametrize(
    ("scenario", "patient"),
    [
        ("120/80", "a hundred and twenty over eighty"),
        ("120/80", "one twenty over eighty"),
        ("38.5 °C", "thirty-eight point five"),
        ("2.5 mg", "two and a half milligrams"),
        ("1,500 steps", "one thousand five hundred steps"),
        ("2 times a day", "twice a day"),
        ("0.5 tablets", "half a tablet"),
        ("24小时", "二十四小时"),
    ],
)
def test_a_number_that_the_patient_said_in_words_is_not_unsaid(scenario: str, patient: str) -> None:
    assert giveaway.unsaid_numbers(scenario, [patient]) == []
    assert giveaway.unsaid_numbers("150", [patient]) == ["150"]


def test_simulated_mistakes_are_replicated_at_the_configured_rate() -> None:
    """With targets at 40 % and 15 %: 49 % of first variants, and 1 - 0.51³ with two harder ones."""

    async def replications(n: int) -> list[bool]:
        replicated = []
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
            (draft_after,) = await run_steps(start, Models(seed=5))
            replicated.append(any(attempt["replicated"] for attempt in draft_after.data["attempts"]))
        return replicated

    repeated = asyncio.run(replications(400))
    # Four standard errors of a share of 400.
    assert sum(repeated) / 400 == pytest.approx(0.49, abs=0.10)
