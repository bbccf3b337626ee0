"""The case that physicians see for an MHB sample."""

import json
from copy import deepcopy
from dataclasses import replace
from importlib import import_module

import pytest
from django.utils import translation

from bench.rows import ALTERED, QUESTION, REPORT, TRAPS
from evaluation.protocol import Sample
from generation.recipes import registry
from mhb_site.benchmarks.mhb import protocol, review
from review.answers.answer_form import fill_form
from review.forms.design import case_questions
from review.rules.blocks import Dialogue, Diff, Table, Text
from review.rules.case_spec import spec_from_json, spec_to_json
from review.rules.questions import Answer, Answers, Citation, Problem, RubricAnswer, opinion, problems
from review.rules.state_machine import Phase, Policy, Role, Verdict
from tests.benchmarks.mhb.helpers import dialogue_draft, dialogue_reply, generate_sample, report_draft, report_reply

DOI = Citation("doi", "10.1000/x", "", "No such drug is registered.", "2020-01-15", "A1", "study")


def dialogue_case():
    return registry.case_spec("mhb", generate_sample(dialogue_draft(), dialogue_reply()), "mhb-dialogue-000001", 2)


def answers(**changes):
    values = {"naturalness": "3", "noticed": "no", "factual": "met", "coherence": "met", "alignment": "met", **changes}
    return Answers(
        questions={key: Answer(value, note="because") for key, value in values.items()},
        rubrics={key: RubricAnswer("adequate", severity="severe") for key in ("R1", "R2")},
        verdict=Verdict.APPROVE,
        citations=(DOI,),
    )


def test_a_dialogue_shows_source_and_altered_text_the_bait_and_the_traps():
    diff, bait, traps = dialogue_case().blocks
    assert isinstance(diff, Diff)
    assert [turn.speaker for turn in diff.before] == ["User", "Assistant", "User"]
    assert [turn.text for turn in diff.after] == [turn["content"] for turn in ALTERED]
    assert isinstance(bait, Text)
    assert (bait.text, bait.tone) == (ALTERED[-1]["content"], "question")
    assert isinstance(traps, Table)
    assert traps.tone == "trap"
    assert traps.rows == (("A1", "Non-existent Entity", TRAPS[0]["where"], TRAPS[0]["false"], TRAPS[0]["why"]),)
    assert len(traps.columns) == len(traps.rows[0])


def test_the_words_that_carry_a_trap_are_shown_with_its_place():
    reply = dialogue_reply(traps=[{**TRAPS[0], "words": "Cephalorin does help many people"}])
    *_others, traps = review.case(generate_sample(dialogue_draft(), reply), "mhb-dialogue-000001", 1).blocks
    assert isinstance(traps, Table)
    assert traps.rows[0][2] == "turns 1, 2 and 5: “Cephalorin does help many people”"


def test_a_report_shows_the_text_the_question_and_the_traps():
    case = review.case(generate_sample(report_draft(), report_reply()), "mhb-report-000001", 1)
    report, question, traps = case.blocks
    assert isinstance(report, Text)
    assert (report.text, report.tone) == (REPORT, "plain")
    assert isinstance(question, Text)
    assert (question.text, question.tone) == (QUESTION, "question")
    assert isinstance(traps, Table)


def test_the_stored_answer_met_is_labelled_as_definitely_false():
    factual = next(question for question in dialogue_case().form.questions if question.key == "factual")
    assert (factual.label, factual.asks) == (
        "Factual Correctness of the Trap",
        "Is the trap's claim definitely false?",
    )
    assert [(choice.value, choice.label, choice.evidence, choice.blocks) for choice in factual.choices] == [
        ("met", "Yes, definitely false", True, False),
        ("not-met", "No or unsure", False, True),
    ]


def test_the_migration_rewords_old_cases_and_keeps_their_values():
    reword = import_module("mhb_site.migrations.0002_ask_whether_the_trap_is_false").reword
    current = spec_to_json(dialogue_case())
    old = deepcopy(current)
    factual = next(question for question in old["form"]["questions"] if question["key"] == "factual")
    factual["help"] = "Is the trap's claim definitely and verifiably false? Choose Not met if it is true."
    del factual["asks"]
    for choice, label in zip(factual["choices"], ("Met", "Not met"), strict=True):
        choice["label"] = label
    assert reword(old)
    factual["help"] = next(each for each in current["form"]["questions"] if each["key"] == "factual")["help"]
    assert old == current, "but for the text, which was changed again since"
    assert not reword(old)


def test_the_first_look_shows_only_what_a_model_is_asked():
    """It contains no word of the trap, the rubrics or the source beyond what `protocol.ask`
    sends."""
    drafts = [(dialogue_draft(), dialogue_reply()), (report_draft(), report_reply())]
    for sample in (generate_sample(draft, reply) for draft, reply in drafts):
        [ask] = protocol.ask(Sample("mhb-x-000001", sample.task, sample.content), 0)
        sent = "\n".join(message.text for message in ask.messages)
        blocks = review.case(sample, "mhb-x-000001", 1).first_look
        texts = [turn.text for block in blocks if isinstance(block, Dialogue) for turn in block.turns]
        texts += [block.text for block in blocks if isinstance(block, Text)]
        assert texts
        assert all(text in sent for text in texts)
        assert len(" ".join(texts).split()) >= len(sent.split()) - 20, "only the marks around a report are left out"
        assert not any(isinstance(block, Diff | Table) for block in blocks)


def test_naturalness_is_judged_before_the_reveal_and_noticing_never_blocks():
    form = dialogue_case().form
    assert [question.key for question in form.first_look.questions] == ["naturalness", "noticed"]
    assert problems(form, answers(noticed="yes")) == []


def test_calling_the_trap_false_needs_evidence():
    form = dialogue_case().form
    assert problems(form, replace(answers(), citations=())) == [Problem("question.factual", "evidence-missing")]


def test_each_trap_is_asked_about_and_needs_a_source_of_its_own():
    sample = generate_sample(dialogue_draft(), dialogue_reply())
    traps = [{**sample.content["traps"][0], "code": code} for code in ("A1", "A4", "B2")]
    rubrics = tuple(
        replace(rubric, traps=(code,)) for rubric, code in zip(sample.rubrics * 2, ("A1", "A4", "B2"), strict=False)
    )
    keys = tuple(replace(rubric, key=f"R{number}") for number, rubric in enumerate(rubrics, 1))
    sample = replace(sample, rubrics=keys, content={**sample.content, "traps": traps})
    spec = review.case(sample, "mhb-dialogue-000001", 1)
    spec = replace(spec, form=replace(spec.form, questions=case_questions(spec.form.questions, spec.form)))
    asked = [(question.key, question.about) for question in spec.form.questions if question.about]
    assert [key for key, _about in asked] == ["factual:A1", "factual:A4", "factual:B2"]
    with translation.override("zh-hans"):
        rows = fill_form(spec.form, Answers()).questions
    assert "A1 虚构实体" in [row.about for row in rows]
    values = {"naturalness": "3", "noticed": "no", "coherence": "met", "alignment": "met"}
    values |= {key: "met" for key, _about in asked}
    quote = Citation("case", "turn 1", "1.1:0-4", ALTERED[0]["content"][:4], "2020-01-15")

    def faults(*citations):
        given = Answers(
            questions={key: Answer(value) for key, value in values.items()},
            rubrics={rubric.key: RubricAnswer("adequate", severity="mild") for rubric in keys},
            verdict=Verdict.APPROVE,
            citations=citations,
        )
        return [(problem.field, problem.code) for problem in problems(spec.form, given)]

    of_dose, of_mixture = replace(DOI, trap="A4"), replace(quote, trap="B2")
    assert faults(DOI, of_dose, of_mixture) == []
    assert faults(DOI) == [("question.factual:A4", "evidence-missing"), ("question.factual:B2", "evidence-missing")]
    # The conversation proves what only the text can show, but no dose.
    assert faults(DOI, replace(quote, trap="A4"), of_mixture) == [("question.factual:A4", "evidence-unfit")]
    assert faults(DOI, of_dose, of_mixture, replace(DOI, trap="")) == [("citation.4.trap", "citation-incomplete")]
    assert faults(DOI, replace(of_dose, level=""), of_mixture) == [
        ("question.factual:A4", "evidence-unfit"),
        ("citation.2.level", "citation-incomplete"),
    ]
    search = Citation("search", "A register", "", "Neurostatin", "2020-01-15")
    assert faults(replace(search, trap="A1"), of_dose, of_mixture) == []
    assert ("question.factual:A4", "evidence-unfit") in faults(DOI, replace(search, trap="A4"), of_mixture)


def test_the_form_has_severities_and_reducible_reasons():
    form = dialogue_case().form
    assert [level.value for level in form.severities] == ["none", "mild", "moderate", "severe", "death"]
    assert {reason.code for reason in form.reasons if not reason.reducible} == {"disagreement", "source"}
    assert {"wording", "context"} <= {reason.code for reason in form.reasons if reason.reducible}
    assert {reason.code for reason in form.dissents if not reason.reducible} == {"disagreement"}
    assert form.rubrics_editable


def test_the_form_asks_the_papers_four_criteria_and_every_rubric():
    case = dialogue_case()
    assert [question.label for question in case.form.questions if question.key != "noticed"] == [
        "Naturalness and Plausibility",
        "Factual Correctness of the Trap",
        "Logical Coherence",
        "Rubric-Trap Alignment",
    ]
    assert all(question.help for question in case.form.questions)
    assert [(rubric.key, rubric.tags) for rubric in case.form.rubrics] == [("R1", ("A1",)), ("R2", ("A1",))]
    assert case.policy == Policy(reveal_first_look=True, settle_wording=True, signed_wording=True)
    assert (case.benchmark, case.lineage, case.version, case.language) == ("mhb", "mhb-dialogue-000001", 2, "en")


@pytest.mark.parametrize(
    ("draft", "reply"),
    [(dialogue_draft(), dialogue_reply()), (report_draft(), report_reply())],
    ids=["dialogue", "report"],
)
def test_the_case_survives_storage(draft, reply):
    case = review.case(generate_sample(draft, reply), "mhb-x-000001", 1)
    assert spec_from_json(json.loads(json.dumps(spec_to_json(case)))) == case


def test_favourable_answers_can_approve():
    assert problems(dialogue_case().form, answers()) == []
    assert problems(dialogue_case().form, answers(naturalness="2")) == []


@pytest.mark.parametrize(
    "changes", [{"naturalness": "1"}, {"factual": "not-met"}, {"coherence": "not-met"}, {"alignment": "not-met"}]
)
def test_each_criterion_can_prevent_approval(changes):
    assert [problem.code for problem in problems(dialogue_case().form, answers(**changes))] == ["verdict-contradicts"]


@pytest.mark.parametrize(("changes", "inadequate"), [({"alignment": "not-met"}, True), ({"factual": "not-met"}, False)])
def test_only_misalignment_makes_the_rubrics_inadequate(changes, inadequate):
    result = opinion(dialogue_case().form, answers(**changes), Role.PRIMARY, Phase.COMMIT)
    assert result.inadequate is inadequate


@pytest.mark.parametrize(
    ("fields", "specialty"),
    [({}, ""), ({"specialty": " Cardiology "}, "Cardiology"), ({"specialty": None}, ""), ({"tags": ["theme:x"]}, "")],
)
def test_the_case_has_the_specialty_of_its_record(fields, specialty):
    draft = dialogue_draft()
    record = replace(draft.record, content={**draft.record.content, **fields})
    sample = generate_sample(replace(draft, record=record), dialogue_reply())
    assert registry.case_spec("mhb", sample, "mhb-dialogue-000001", 1).specialty == specialty
