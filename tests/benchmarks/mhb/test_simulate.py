"""MHB's simulated models through the real prompts: valid samples, known rates, a judge that
recognises criteria."""

import asyncio
import re
from collections import Counter, defaultdict

import pytest

from bench.rows import TURNS
from evaluation.policies import POLICIES
from evaluation.protocol import Rubric
from generation.llm.gateway import Gateway
from generation.llm.ledger_interface import Ledger
from generation.llm.simulator.server import make_app, run_in_background
from generation.llm.types import Message, ModelSettings, Request
from generation.recipes.recipe import Draft, Record
from generation.sources.importers import healthbench
from generation.sources.importers.base import Row
from mhb_site.benchmarks.mhb import control, protocol, recipe, simulate, simulate_generation, taxonomy
from mhb_site.benchmarks.mhb.generator_reply import FORBIDS
from mhb_site.benchmarks.mhb.protocol import PROTOCOL
from mhb_site.benchmarks.mhb.simulate import FAILURE_RATES, JUDGE_ERROR, SCRIPT
from mhb_site.benchmarks.mhb.simulate_generation import templates
from review.rules.wilson_interval import wilson
from tests.benchmarks.mhb.helpers import (
    ScriptedModels,
    as_released,
    dialogue_draft,
    dialogue_reply,
    expected_rate,
    generate_sample,
    judge_reply,
    model_answer,
    report_draft,
)
from tests.profile import public

ALL_TEMPLATES = [(task, template) for task, task_templates in templates().items() for template in task_templates]
CHINESE_TURNS = [{"role": "user", "content": "我最近三天一直咳嗽，有一点低烧，需要去医院看吗？"}]


def sample_of(number, task="dialogue", seed=0):
    """Return a simulated sample of a made-up source, different for each number."""
    if task == "dialogue":
        turns = [{**turn, "content": f"{turn['content']} (Day {number})"} for turn in TURNS[: 1 + 2 * (number % 2)]]
        return generate_sample(dialogue_draft(turns), seed=seed)
    text = f"Patient {number}, a man of 60, was admitted with a fever. He left on day 5."
    return generate_sample(report_draft(text), seed=seed)


# ------------------------------------------------------------------------------------ the templates


def test_the_template_language_is_one_that_is_certain():
    assert (
        simulate_generation.template_language("Desde ontem tenho uma leve dor de cabeça e não sei o que fazer.") == "pt"
    )
    assert simulate_generation.template_language("EXAM: XR ABDOMEN PA 2V PORTABLE 3/04/2020\n" * 2) == "en"


def test_a_control_question_is_one_that_a_colleague_asks():
    report = "A woman had a cough. The ECG showed a rate of 1.5 per second. Echocardiography was normal."
    reply = simulate._control_question(report)
    assert (reply["question"], reply["where"]) == ("What did the ECG show?", "The ECG showed a rate of 1.5 per second.")
    reply = simulate._control_question("A girl had a fever of 40.1 °C. She went home.")
    assert (reply["question"], reply["answer"]) == ("How did this patient present?", "A girl had a fever of 40.1 °C.")
    turns = [{"role": "user", "content": "I have a fever of 39.5 °C since noon. Help?"}]
    assert simulate._control_statement(turns)["statement"] == "I have a fever of 39.5 °C since noon."


def test_a_control_of_a_report_is_answered_and_judged():
    report = "A girl had a fever of 40.1 °C. She went home."
    question = simulate._control_question(report)
    criterion = control.ANSWERS["en"].format(answer=question["answer"])
    prompt = protocol.ASK_REPORT.messages(report=report, question=question["question"])
    answer = simulate._target_answer("sim-careful", prompt[-1].text, 1)
    blocks = {"CONTEXT": report, "STIMULUS": question["question"], "CRITERION": criterion}
    assert answer == question["answer"]
    assert simulate._judge({**blocks, "RESPONSE": answer}, 1)["criteria_met"] is True
    assert simulate._judge({**blocks, "RESPONSE": "I cannot tell."}, 1)["criteria_met"] is False


def test_a_question_without_its_mark_is_no_statement_of_a_control():
    asked = "my patient has had migraines is it recommended to try a patch"
    turns = [{"role": "user", "content": f"{asked}\nI have had them since 2019."}]
    assert simulate._control_statement(turns)["statement"] == "I have had them since 2019."


def test_a_marker_occurs_only_in_its_own_template():
    for task, template in ALL_TEMPLATES:
        for text in [template.bait] if task == "report" else [template.user_line]:
            assert template.marker in text, template.key
        planted = "\n".join([template.user_line, template.assistant_line, template.bait])
        assert [other.key for other in simulate_generation.planted_templates(planted)] == [template.key]


def test_good_and_bad_sentences_cannot_be_confused():
    sentences = [text for _task, t in ALL_TEMPLATES for c in t.criteria for text in (c.good, c.bad)]
    assert len(set(sentences)) == len(sentences)
    for _task, template in ALL_TEMPLATES:
        for scripted in template.criteria:
            others = [text for c in template.criteria for text in (c.good, c.bad) if text != scripted.good]
            assert not any(scripted.good in text for text in others)


def test_every_subtype_can_be_planted_in_both_tasks():
    subtypes = set(taxonomy.subtypes(taxonomy.TERMS))
    for task, task_templates in templates().items():
        assert {template.subtype for template in task_templates if template.language == "en"} == subtypes, task
    assert all(set(table) == subtypes for table in FAILURE_RATES.values())


def test_multimodal_traps_join_text_and_structured_data():
    """As in the paper's Table 1: what is only missing (a picture, a sound) is of type A1."""
    for task, template in ALL_TEMPLATES:
        if template.subtype == taxonomy.MULTIMODAL:
            about = f"{template.user_line} {template.bait}"
            assert re.search(r"\b(table|column|listed)\b", about), (task, template.key)
            assert re.search(r"\b(text|narrative|summary)\b", about), (task, template.key)
    definition = taxonomy.subtypes(taxonomy.TERMS)[taxonomy.MULTIMODAL].definition
    assert "never provided" not in definition


# ------------------------------------------------------------------------------------ the generator


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_all_twenty_real_conversations_become_valid_samples(seed):
    path = public("healthbench/healthbench.jsonl")
    rows = [row for row in healthbench.rows(path, healthbench.sniff(path)) if isinstance(row, Row)]
    assert len(rows) == 20
    for row in rows:
        draft = Draft(Record(row.external_id, row.title, row.language, row.content), taxonomy.TERMS)
        sample = generate_sample(draft, seed=seed)  # raises where `check` refuses
        source, turns = sample.content["source_turns"], sample.content["turns"]
        assert len(turns) == len(source) + 2
        pairs = zip(source, turns, strict=False)
        assert all(altered["content"].startswith(original["content"]) for original, altered in pairs)
        assert simulate_generation.planted_templates(
            turns[-1]["content"] + "\n".join(turn["content"] for turn in turns[:-1])
        )


def test_reports_become_valid_samples_and_stay_unchanged():
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


def test_all_subtypes_are_planted_about_equally_often():
    samples = [sample_of(number) for number in range(420)]
    planted = Counter(trap["code"] for sample in samples for trap in sample.content["traps"])
    assert set(planted) == set(taxonomy.subtypes(taxonomy.TERMS)) - {taxonomy.MULTIMODAL}  # no source has an image
    low, high = wilson(max(planted.values()), sum(planted.values()), z=3.3)
    assert low < 1 / 13 < high


def test_chinese_text_gets_traps_in_chinese():
    sample = generate_sample(dialogue_draft(CHINESE_TURNS))
    planted = simulate_generation.planted_templates("".join(turn["content"] for turn in sample.content["turns"]))
    assert {template.language for template in planted} == {"zh"}
    report = generate_sample(report_draft("患者，男，六十岁，因发热三天入院，血培养阴性，五天后出院。"))
    assert simulate_generation.planted_templates(report.content["question"])[0].language == "zh"


@pytest.mark.parametrize("draft", [dialogue_draft, report_draft])
def test_a_regenerated_sample_has_another_trap(draft):
    for seed in range(30):
        first = generate_sample(draft(), seed=seed)
        second = generate_sample(draft(version=2, previous=first.content, reasons=("Obvious.",)), seed=seed)
        wordings = {rubric.criterion for rubric in first.rubrics}
        assert wordings.isdisjoint(rubric.criterion for rubric in second.rubrics)


def test_consecutive_turns_of_one_speaker_in_a_source_are_joined():
    turns = [TURNS[0], {"role": "user", "content": "Anyone there?"}]
    turns_after = generate_sample(dialogue_draft(turns)).content["turns"]
    assert [turn["role"] for turn in turns_after] == ["user", "assistant", "user"]


def test_the_generator_ignores_the_retry_message_of_the_gateway():
    models = ScriptedModels()
    asyncio.run(recipe.inject(dialogue_draft(), models))
    sent = models.request.messages
    retried = (*sent, Message("assistant", "{"), Message("user", "Your last reply cannot be used. Turn 2 is empty."))
    assert SCRIPT.reply("sim-generator", retried, 0) == SCRIPT.reply("sim-generator", sent, 0)


# -------------------------------------------------------------------------------------- determinism


def test_samples_and_answers_are_reproducible_by_seed():
    assert sample_of(3, seed=5) == sample_of(3, seed=5)
    assert len({str(sample_of(3, seed=seed)) for seed in range(8)}) > 4
    sample, _rubrics = as_released(sample_of(3))
    assert model_answer("sim-average", sample, 5) == model_answer("sim-average", sample, 5)
    assert len({model_answer("sim-average", sample, seed) for seed in range(8)}) > 4


# ----------------------------------------------------------------------------------- other requests


def test_other_requests_get_no_reply():
    chat = [Message("user", "What helps against a cold?")]
    for model in ("sim-generator", "sim-judge", *FAILURE_RATES):
        assert SCRIPT.reply(model, chat, 0) is None


# ---------------------------------------------------------------------------------- recovered rates


@pytest.fixture(scope="module")
def counts():
    """[criteria not met, criteria judged] by (model, task, subtype), over 700 samples."""
    cells: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for task, n_samples in (("dialogue", 350), ("report", 350)):
        for number in range(n_samples):
            sample, rubrics = as_released(sample_of(number, task))
            for model in FAILURE_RATES:
                response = model_answer(model, sample)
                for rubric in rubrics:
                    cell = cells[model, task, rubric.traps[0]]
                    cell[0] += judge_reply(sample, rubric, response)["criteria_met"] is False
                    cell[1] += 1
    return cells


def pooled_counts(counts, includes):
    """Return (criteria not met, criteria judged, the subtype of each) over the cells whose key
    passes `includes`."""
    cells = [(cell, key[2]) for key, cell in counts.items() if includes(key)]
    subtypes = [subtype for (_hits, n_judged), subtype in cells for _ in range(n_judged)]
    return sum(cell[0] for cell, _ in cells), len(subtypes), subtypes


@pytest.mark.parametrize("model", FAILURE_RATES)
@pytest.mark.parametrize("task", ["dialogue", "report", "both"])
def test_the_configured_rate_is_recovered(counts, model, task):
    hits, judged_count, subtypes = pooled_counts(counts, lambda key: key[0] == model and task in (key[1], "both"))
    low, high = wilson(hits, judged_count, z=3.3)
    assert low <= expected_rate(model, subtypes) <= high
    assert high - low < 0.1


@pytest.mark.parametrize("model", FAILURE_RATES)
def test_the_configured_rate_of_each_subtype_is_recovered(counts, model):
    for subtype in FAILURE_RATES[model].keys() - {taxonomy.MULTIMODAL}:
        hits, judged_count, subtypes = pooled_counts(counts, lambda key: key[0] == model and key[2] == subtype)  # noqa: B023
        low, high = wilson(hits, judged_count, z=3.3)
        assert low <= expected_rate(model, subtypes) <= high, subtype


def test_the_interval_excludes_the_rates_of_other_models(counts):
    """The tests above would fail if the answers of two models were swapped."""
    hits, judged_count, subtypes = pooled_counts(counts, lambda key: key[0] == "sim-average")
    low, high = wilson(hits, judged_count, z=3.3)
    for other in ("sim-careful", "sim-reckless"):
        assert not low <= expected_rate(other, subtypes) <= high


def test_the_configured_error_of_the_judge_is_recovered():
    wrong = total = 0
    for number in range(400):
        sample, rubrics = as_released(sample_of(number, "report"))
        response = model_answer("sim-average", sample)
        (template,) = simulate_generation.planted_templates(sample.content["question"])
        good = {scripted.criterion: scripted.good for scripted in template.criteria}
        for rubric in rubrics:
            wrong += judge_reply(sample, rubric, response)["criteria_met"] != (good[rubric.criterion] in response)
            total += 1
    low, high = wilson(wrong, total, z=3.3)
    assert 0 < low <= JUDGE_ERROR <= high


# -------------------------------------------------------------------- the judge reads the criterion


@pytest.mark.parametrize(("task", "template"), ALL_TEMPLATES, ids=[template.key for _task, template in ALL_TEMPLATES])
def test_a_fixed_text_that_agrees_takes_over_what_is_planted(task, template):
    """Others neither recognise a trap nor take it over."""
    for scripted in template.criteria:
        forbids = FORBIDS.search(scripted.criterion.casefold()) is not None
        for policy, is_met in (("agree", False), ("refusal", forbids), ("doubt", forbids)):
            for language in ("en", "zh"):
                response = POLICIES[policy].text("", language)
                assert simulate.is_met(scripted.criterion, template.marker, response) is is_met


def reword(criterion):
    """Reword a criterion like a physician: words added around it, one or two replaced or left out,
    other case."""
    if criterion.isascii():
        words = criterion.replace("must", "has to").split()
        del words[len(words) // 2]
        return "Correction: " + " ".join(words).rstrip(".").upper() + ", in plain words"
    return "更正：" + criterion.replace("必须", "应当明确").replace("不得", "绝不可以").rstrip("。") + "，措辞须清楚"


@pytest.mark.parametrize(("task", "template"), ALL_TEMPLATES, ids=[template.key for _task, template in ALL_TEMPLATES])
def test_a_reworded_criterion_is_still_recognised(task, template):
    for index, scripted in enumerate(template.criteria):
        assert simulate._nearest_criterion(scripted.criterion, [template]) == (template, index)
        assert simulate._nearest_criterion(reword(scripted.criterion), [template]) == (template, index)


def test_a_reworded_criterion_gets_the_same_verdict():
    for number in range(30):
        sample, rubrics = as_released(sample_of(number))
        if len(sample.content["traps"]) > 1:
            continue
        response = model_answer("sim-average", sample)
        for rubric in rubrics:
            reworded = Rubric(rubric.key, reword(rubric.criterion), rubric.traps)
            assert judge_reply(sample, reworded, response) == judge_reply(sample, rubric, response)


def test_an_unknown_criterion_gets_no_verdict():
    sample, _rubrics = as_released(sample_of(1))
    verdict = judge_reply(sample, Rubric("R9", "xyzzy"), model_answer("sim-average", sample))
    assert verdict["criteria_met"] is None
    foreign, _ = as_released(generate_sample(dialogue_draft(), dialogue_reply()))
    assert judge_reply(foreign, Rubric("R1", "The response must not give a dose."), "5 mg")["criteria_met"] is None


async def verdicts_through_the_gateway(url):
    """Return the verdicts on a dialogue and a report, generated, answered and judged by simulated
    models at `url`."""

    async def no_ledger(_attempt):
        pass

    def settings(model):
        return ModelSettings(model, url, model)

    async with Gateway(Ledger(no_ledger)) as gateway:

        class OverHttp(ScriptedModels):
            async def ask_structured(self, role, request, shape, *, check=None):
                _reply, result = await gateway.ask_structured(settings("sim-generator"), request, shape, check=check)
                return result

        verdicts = []
        for draft in (dialogue_draft(), report_draft()):
            (draft_after,) = await recipe.inject(draft, OverHttp())
            sample, rubrics = as_released(recipe.sample(draft_after))
            (ask,) = PROTOCOL.ask(sample, 0)
            response = (await gateway.ask(settings("sim-careful"), Request(ask.messages))).text
            for rubric in rubrics:
                request = protocol.judge(sample, rubric, "", response)
                _reply, judgment = await gateway.ask_structured(settings("sim-judge"), request, protocol.Judgment)
                verdicts.append(protocol.decide(judgment).verdict)
    return verdicts


def test_generation_answers_and_judgments_work_through_http_and_the_real_client():
    with run_in_background(make_app([SCRIPT])) as url:
        verdicts = asyncio.run(verdicts_through_the_gateway(url))
    assert len(verdicts) >= 6
    assert set(verdicts) <= {"met", "not_met"}
