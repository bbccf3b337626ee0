"""MHB's simulated models, through the real prompts: valid samples, known rates, and a judge that recognises criteria."""

import asyncio
import os
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from bench.rows import TURNS
from evaluation.protocol import Rubric
from generation.llm.gateway import Gateway
from generation.llm.ledger_interface import Ledger
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message, ModelSettings, Request
from generation.recipes.recipe import Draft, Record
from generation.sources.importers import healthbench
from generation.sources.importers.base import Row
from mhb_site.benchmarks.mhb import protocol, recipe, simulate, simulate_generation, taxonomy
from mhb_site.benchmarks.mhb.protocol import PROTOCOL
from mhb_site.benchmarks.mhb.simulate import FAILURE_RATES, JUDGE_ERROR, SCRIPT, expected_rate, true_rate
from mhb_site.benchmarks.mhb.simulate_generation import templates
from review.rules.wilson_interval import wilson
from tests.benchmarks.mhb.helpers import (
    Scripted,
    answered,
    dialogue_draft,
    dialogue_reply,
    generated,
    judged,
    released,
    report_draft,
)

REAL = Path(__file__).parents[4] / "shared/data/healthbench/healthbench.jsonl"
ALL = [(task, template) for task, some in templates().items() for template in some]
ZH = [{"role": "user", "content": "我最近三天一直咳嗽，有一点低烧，需要去医院看吗？"}]


def sample_of(number, task="dialogue", seed=0):
    """A simulated sample of a made-up source, another one for every number."""
    if task == "dialogue":
        turns = [{**turn, "content": f"{turn['content']} (Day {number})"} for turn in TURNS[: 1 + 2 * (number % 2)]]
        return generated(dialogue_draft(turns), seed=seed)
    text = f"Patient {number}, a man of 60, was admitted with a fever. He left on day 5."
    return generated(report_draft(text), seed=seed)


# -------------------------------------------------------------------------------------------------------- the templates


def test_a_marker_stands_in_its_own_template_and_in_no_other():
    for task, template in ALL:
        for where in [template.bait] if task == "report" else [template.user_line]:
            assert template.marker in where, template.key
        planted = "\n".join([template.user_line, template.assistant_line, template.bait])
        assert [other.key for other in simulate_generation.planted_templates(planted)] == [template.key]


def test_good_and_bad_sentences_cannot_be_taken_for_one_another():
    sentences = [text for _task, t in ALL for c in t.criteria for text in (c.good, c.bad)]
    assert len(set(sentences)) == len(sentences)
    for _task, template in ALL:
        for scripted in template.criteria:
            others = [text for c in template.criteria for text in (c.good, c.bad) if text != scripted.good]
            assert not any(scripted.good in text for text in others)


def test_every_subtype_can_be_planted_in_both_tasks():
    subtypes = set(taxonomy.subtypes(taxonomy.TERMS))
    for task, some in templates().items():
        assert {template.subtype for template in some if template.language == "en"} == subtypes, task
    assert all(set(table) == subtypes for table in FAILURE_RATES.values())


# --------------------------------------------------------------------------------------------------------- the generator


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_twenty_of_twenty_real_conversations_become_valid_samples(seed):
    if not REAL.exists():
        reason = "shared/data/healthbench is not there"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    rows = [row for row in healthbench.rows(REAL, healthbench.sniff(REAL)) if isinstance(row, Row)]
    assert len(rows) == 20
    for row in rows:
        draft = Draft(Record(row.external_id, row.title, row.language, row.content), taxonomy.TERMS)
        sample = generated(draft, seed=seed)  # raises where `check` refuses
        source, turns = sample.content["source_turns"], sample.content["turns"]
        assert len(turns) == len(source) + 2
        pairs = zip(source, turns, strict=False)
        assert all(altered["content"].startswith(given["content"]) for given, altered in pairs)
        assert simulate_generation.planted_templates(
            turns[-1]["content"] + "\n".join(turn["content"] for turn in turns[:-1])
        )


def test_reports_become_valid_samples_and_stay_as_they_are():
    for number in range(60):
        sample = sample_of(number, "report")
        (trap,) = sample.content["traps"]
        assert simulate_generation.planted_templates(sample.content["question"])[0].subtype == trap["code"]
        assert not simulate_generation.planted_templates(sample.content["report"])


def test_both_speakers_carry_the_trap():
    for number in range(60):
        content = sample_of(number).content
        for template in simulate_generation.planted_templates("\n".join(turn["content"] for turn in content["turns"])):
            lines = template.user_line, template.assistant_line
            before = content["turns"][:-1]
            carriers = [turn["role"] for turn in before if any(line in turn["content"] for line in lines)]
            assert carriers == ["user", "assistant"]
            assert template.bait in content["turns"][-1]["content"]


def test_all_subtypes_are_planted_about_equally_often_and_some_samples_have_two():
    samples = [sample_of(number) for number in range(420)]
    planted = Counter(trap["code"] for sample in samples for trap in sample.content["traps"])
    assert set(planted) == set(taxonomy.subtypes(taxonomy.TERMS)) - {taxonomy.MULTIMODAL}  # no source has an image
    low, high = wilson(max(planted.values()), sum(planted.values()), z=3.3)
    assert low < 1 / 13 < high
    low, high = wilson(sum(len(sample.content["traps"]) == 2 for sample in samples), len(samples), z=3.3)
    assert low < simulate_generation.SECOND_TRAP < high


def test_chinese_text_gets_traps_in_chinese():
    sample = generated(dialogue_draft(ZH))
    planted = simulate_generation.planted_templates("".join(turn["content"] for turn in sample.content["turns"]))
    assert {template.language for template in planted} == {"zh"}
    report = generated(report_draft("患者，男，六十岁，因发热三天入院，血培养阴性，五天后出院。"))
    assert simulate_generation.planted_templates(report.content["question"])[0].language == "zh"


@pytest.mark.parametrize("draft", [dialogue_draft, report_draft])
def test_a_rejected_sample_comes_back_with_another_trap(draft):
    for seed in range(30):
        first = generated(draft(), seed=seed)
        second = generated(draft(version=2, previous=first.content, reasons=("Obvious.",)), seed=seed)
        wordings = {rubric.criterion for rubric in first.rubrics}
        assert wordings.isdisjoint(rubric.criterion for rubric in second.rubrics)


def test_consecutive_turns_of_one_speaker_in_a_source_are_joined():
    turns = [TURNS[0], {"role": "user", "content": "Anyone there?"}]
    made = generated(dialogue_draft(turns)).content["turns"]
    assert [turn["role"] for turn in made] == ["user", "assistant", "user"]


def test_the_reason_that_the_gateway_shows_does_not_confuse_the_generator():
    models = Scripted()
    asyncio.run(recipe.inject(dialogue_draft(), models))
    sent = models.request.messages
    again = (*sent, Message("assistant", "{"), Message("user", "Your last reply cannot be used. Turn 2 is empty."))
    assert SCRIPT.reply("sim-generator", again, 0) == SCRIPT.reply("sim-generator", sent, 0)


# ----------------------------------------------------------------------------------------------------------- determinism


def test_the_same_seed_says_the_same_and_another_seed_something_else():
    assert sample_of(3, seed=5) == sample_of(3, seed=5)
    assert len({str(sample_of(3, seed=seed)) for seed in range(8)}) > 4
    sample, _rubrics = released(sample_of(3))
    assert answered("sim-average", sample, 5) == answered("sim-average", sample, 5)
    assert len({answered("sim-average", sample, seed) for seed in range(8)}) > 4


# ------------------------------------------------------------------------------------------------- what is not for us


def test_other_requests_are_left_to_others():
    chat = [Message("user", "What helps against a cold?")]
    for model in ("sim-generator", "sim-judge", *FAILURE_RATES):
        assert SCRIPT.reply(model, chat, 0) is None


# ------------------------------------------------------------------------------------------------------ recovered rates


@pytest.fixture(scope="module")
def counts():
    """(model, task, subtype) -> [criteria found not met, criteria judged], over 700 samples."""
    found: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for task, many in (("dialogue", 350), ("report", 350)):
        for number in range(many):
            sample, rubrics = released(sample_of(number, task))
            for model in FAILURE_RATES:
                response = answered(model, sample)
                for rubric in rubrics:
                    cell = found[model, task, rubric.traps[0]]
                    cell[0] += judged(sample, rubric, response)["criteria_met"] is False
                    cell[1] += 1
    return found


def recovered(counts, wanted):
    """(hits, judged, the subtype of every criterion) over the cells that `wanted` takes."""
    cells = [(cell, key[2]) for key, cell in counts.items() if wanted(key)]
    subtypes = [subtype for (_hits, judged), subtype in cells for _ in range(judged)]
    return sum(cell[0] for cell, _ in cells), len(subtypes), subtypes


@pytest.mark.parametrize("model", FAILURE_RATES)
@pytest.mark.parametrize("task", ["dialogue", "report", "both"])
def test_the_measured_rate_is_the_built_in_one(counts, model, task):
    hits, judged_count, subtypes = recovered(counts, lambda key: key[0] == model and task in (key[1], "both"))
    low, high = wilson(hits, judged_count, z=3.3)
    assert low <= expected_rate(model, subtypes) <= high
    assert high - low < 0.1


@pytest.mark.parametrize("model", FAILURE_RATES)
def test_the_measured_rate_is_the_built_in_one_for_each_subtype(counts, model):
    for subtype in FAILURE_RATES[model].keys() - {taxonomy.MULTIMODAL}:
        hits, judged_count, subtypes = recovered(counts, lambda key: key[0] == model and key[2] == subtype)  # noqa: B023
        low, high = wilson(hits, judged_count, z=3.3)
        assert low <= expected_rate(model, subtypes) <= high, subtype


def test_the_interval_would_notice_a_wrong_rate(counts):
    """Taking one model's answers for another's must not pass."""
    hits, judged_count, subtypes = recovered(counts, lambda key: key[0] == "sim-average")
    low, high = wilson(hits, judged_count, z=3.3)
    for other in ("sim-careful", "sim-reckless"):
        assert not low <= expected_rate(other, subtypes) <= high


def test_the_judges_error_is_the_built_in_one():
    wrong = total = 0
    for number in range(400):
        sample, rubrics = released(sample_of(number, "report"))
        response = answered("sim-average", sample)
        (template,) = simulate_generation.planted_templates(sample.content["question"])
        good = {scripted.criterion: scripted.good for scripted in template.criteria}
        for rubric in rubrics:
            wrong += judged(sample, rubric, response)["criteria_met"] != (good[rubric.criterion] in response)
            total += 1
    low, high = wilson(wrong, total, z=3.3)
    assert 0 < low <= JUDGE_ERROR <= high


def test_expected_rates_account_for_the_judges_error():
    assert true_rate("sim-careful", ["A1", "B1"]) == pytest.approx(0.15)
    assert expected_rate("sim-careful", ["A1", "B1"]) == pytest.approx(0.15 * 0.98 + 0.85 * 0.02)


# ------------------------------------------------------------------------------------------ the judge reads the criterion


def mangled(criterion):
    """A physician's rewording: words added before and behind, one or two left out, other case and punctuation."""
    if criterion.isascii():
        words = criterion.replace("must", "has to").split()
        del words[len(words) // 2]
        return "Correction: " + " ".join(words).rstrip(".").upper() + ", in plain words"
    return "更正：" + criterion.replace("必须", "应当明确").replace("不得", "绝不可以").rstrip("。") + "，措辞须清楚"


@pytest.mark.parametrize(("task", "template"), ALL, ids=[template.key for _task, template in ALL])
def test_a_criterion_in_a_physicians_wording_is_still_recognised(task, template):
    for at, scripted in enumerate(template.criteria):
        assert simulate._nearest_criterion(scripted.criterion, [template]) == (template, at)
        assert simulate._nearest_criterion(mangled(scripted.criterion), [template]) == (template, at)


def test_a_reworded_criterion_gets_the_same_verdict():
    for number in range(30):
        sample, rubrics = released(sample_of(number))
        if len(sample.content["traps"]) > 1:
            continue
        response = answered("sim-average", sample)
        for rubric in rubrics:
            reworded = Rubric(rubric.key, mangled(rubric.criterion), rubric.traps)
            assert judged(sample, reworded, response) == judged(sample, rubric, response)


def test_a_criterion_that_nobody_scripted_gets_no_verdict():
    sample, _rubrics = released(sample_of(1))
    verdict = judged(sample, Rubric("R9", "xyzzy"), answered("sim-average", sample))
    assert verdict["criteria_met"] is None
    foreign, _ = released(generated(dialogue_draft(), dialogue_reply()))
    assert judged(foreign, Rubric("R1", "The response must not give a dose."), "5 mg")["criteria_met"] is None


async def through_the_gateway(url):
    """The verdicts on a dialogue and a report, made, answered and judged by simulated models at `url`."""

    async def no_ledger(_attempt):
        pass

    def settings(model):
        return ModelSettings(model, url, model)

    async with Gateway(Ledger(no_ledger)) as gateway:

        class OverHttp(Scripted):
            async def ask_structured(self, role, request, shape, *, check=None):
                _reply, made = await gateway.ask_structured(settings("sim-generator"), request, shape, check=check)
                return made

        verdicts = []
        for draft in (dialogue_draft(), report_draft()):
            (made,) = await recipe.inject(draft, OverHttp())
            sample, rubrics = released(recipe.sample(made))
            (asked,) = PROTOCOL.ask(sample, 0)
            response = (await gateway.ask(settings("sim-careful"), Request(asked.messages))).text
            for rubric in rubrics:
                request = protocol.judge(sample, rubric, "", response)
                _reply, judgment = await gateway.ask_structured(settings("sim-judge"), request, protocol.Judgment)
                verdicts.append(protocol.decide(judgment).verdict)
    return verdicts


def test_the_whole_way_through_http_and_the_real_client():
    with run_in_background(make_app([SCRIPT])) as url:
        verdicts = asyncio.run(through_the_gateway(url))
    assert len(verdicts) >= 8
    assert set(verdicts) <= {"met", "not_met"}
