"""Results of tools with a judge of their own are read, or refused by name.

The files are made by hand in the form that the tools write.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation import errors
from evaluation.interchange import files, importing, rows
from evaluation.models import Judgment
from generation.models import Release
from tests.engine import bare_release

SAMPLE = "mhb-dialogue-000000"
MADE_UP = "The response must say that Madeupin does not exist."


def read(folder: Path, data: Any, *, lines: bool = False) -> list[files.Entry]:
    path = folder / "results"
    path.write_text("\n".join(map(json.dumps, data)) if lines else json.dumps(data, indent=1))
    return list(rows.read(path))


def told(entries: list[files.Entry]) -> list[Any]:
    """(rubric, met, model, response) of each verdict; the reason of each refusal."""
    return [
        (entry.rubric, entry.met, entry.model, entry.response)
        if isinstance(entry, files.VerdictRow)
        else getattr(entry, "reason", "")
        for entry in entries
    ]


def promptfoo_result(kind: str = "llm-rubric", **changes: Any) -> dict[str, Any]:
    verdicts = [
        {"pass": True, "score": 1, "reason": "It says so.", "assertion": {"type": kind, "value": MADE_UP, "weight": 1}},
        {"pass": False, "score": 0, "reason": "", "assertion": {"type": "llm-rubric", "value": 'Names {{ "{" }}%x%}.'}},
    ]
    return {
        "provider": {"id": "openai:gpt-9", "label": ""},
        "response": {"output": "No such drug."},
        "testCase": {"description": SAMPLE, "metadata": {"sample_id": SAMPLE}, "vars": {}, "assert": []},
        "gradingResult": {"pass": False, "score": 0.5, "reason": "", "componentResults": verdicts},
        **changes,
    }


@pytest.mark.plain
@pytest.mark.parametrize(("score", "met"), [(0, False), (1, True), (0.3, None)])
def test_of_promptfoos_assertions_without_weight_the_score_counts(tmp_path: Path, score: float, met: Any) -> None:
    """They pass whatever the grader says."""
    assertion = {"type": "llm-rubric", "value": MADE_UP, "weight": 0}
    component = {"pass": True, "score": score, "reason": "", "assertion": assertion}
    result = promptfoo_result(gradingResult={"componentResults": [component]})
    assert [verdict[1] for verdict in told(read(tmp_path, result))] == [met]


@pytest.mark.plain
@pytest.mark.parametrize("kind", ["llm-rubric", "not-llm-rubric"])
@pytest.mark.parametrize(
    "component",
    [
        # As promptfoo 0.121.20 writes them: the grader failed, or replied {"score": 0}.
        {"pass": False, "score": 0, "reason": "the server broke", "metadata": {"graderError": True}},
        {"pass": True, "score": 0, "reason": "half"},
        {"pass": False, "score": 1, "reason": "half"},
    ],
)
def test_what_promptfoos_grader_left_open_is_no_verdict(tmp_path: Path, kind: str, component: dict[str, Any]) -> None:
    component["assertion"] = {"type": kind, "value": MADE_UP}
    result = promptfoo_result(gradingResult={"componentResults": [component]})
    entry = read(tmp_path, result)[0]
    assert isinstance(entry, files.VerdictRow)
    assert (entry.met, entry.outcome, entry.explanation) == (None, "unparsed", component["reason"])


@pytest.mark.plain
def test_promptfoos_assertions_are_verdicts_whichever_way_they_are_turned(tmp_path: Path) -> None:
    document = {"evalId": "eval-1", "results": {"version": 3, "results": [promptfoo_result()]}, "config": {}}
    verdicts = [
        (MADE_UP, True, "openai:gpt-9", "No such drug."),
        ("Names {%x%}.", False, "openai:gpt-9", "No such drug."),
    ]
    assert told(read(tmp_path, document)) == verdicts
    assert told(read(tmp_path, [promptfoo_result()], lines=True)) == verdicts
    assert told(read(tmp_path, [promptfoo_result("not-llm-rubric")], lines=True))[0][1] is False
    others = [
        promptfoo_result(testCase={"metadata": {}}),
        promptfoo_result(gradingResult=None, error="429"),
        promptfoo_result(gradingResult={"componentResults": []}),
    ]
    refused = told(read(tmp_path, {**document, "results": {"results": others}}))
    for reason, words in zip(refused, ("sample_id", "failed there: 429", "no verdict"), strict=True):
        assert words in reason


@pytest.mark.plain
def test_a_score_that_is_no_verdict_on_a_criterion_costs_only_itself(tmp_path: Path) -> None:
    by_hand = {"pass": True, "score": 1, "reason": "Manual result", "assertion": {"type": "human"}}
    fast = {"pass": True, "score": 1, "reason": "", "assertion": {"type": "latency", "threshold": 1}}
    rubric = promptfoo_result()["gradingResult"]["componentResults"][0]
    trace = {"id": "t", "htmlPath": "/", "metadata": {"sample_id": SAMPLE}, "input": "?", "output": "No."}
    run = {"run_type": "chain", "outputs": {"output": "No."}, "extra": {"metadata": {"sample_id": SAMPLE}}}
    answers = [
        promptfoo_result(gradingResult={"componentResults": [by_hand, rubric, fast]}),
        {**trace, "scores": [score("helpful", 0.5), score("R1", 1)]},
        {**run, "feedback": [{"key": "helpful", "score": 0.5}, {"key": "R1", "score": 1}]},
        {**run, "feedback_stats": {"helpful": {"n": 2, "avg": 0.5}, "R1": {"n": 1, "avg": 1.0}}},
    ]
    assert [
        entry[:2] if isinstance(entry, tuple) else entry for entry in told(read(tmp_path, answers, lines=True))
    ] == [
        "promptfoo: a person rated the answer as a whole, which is no verdict on a criterion",
        "promptfoo: an assertion is latency, no llm-rubric on a criterion",
        (MADE_UP, True),
        "Langfuse: the score helpful is 0.5, neither 0 nor 1: it is none of a criterion",
        ("R1", True),
        "LangSmith: the score helpful is 0.5, neither 0 nor 1: it is none of a criterion",
        ("R1", True),
        "LangSmith: helpful has a mean of several judgments; export the feedback itself",
        ("R1", True),
    ]


@pytest.mark.plain
@pytest.mark.parametrize("sample", [5, [SAMPLE], {"key": SAMPLE}])
def test_a_sample_that_is_no_text_costs_only_its_answer(tmp_path: Path, sample: Any) -> None:
    wrong = promptfoo_result(testCase={"metadata": {"sample_id": sample}})
    failed = {**wrong, "gradingResult": None, "error": "429"}
    of_wrong, of_failed, kept = told(read(tmp_path, [wrong, failed, promptfoo_result()], lines=True))[1:4]
    assert of_wrong == "sample: missing or not text"
    assert "failed there: 429" in of_failed
    assert kept[0] == MADE_UP


@pytest.mark.plain
def test_simple_evals_grades_of_rubric_items_are_read(tmp_path: Path) -> None:
    item = {"criterion": MADE_UP, "points": 5, "tags": [], "criteria_met": True, "explanation": "It says so."}
    example = {
        "score": 1.0,
        "prompt_id": SAMPLE,
        "prompt": [{"role": "user", "content": "May I take Madeupin?"}],
        "completion": [{"role": "assistant", "content": "No such drug."}],
        "rubric_items": [item],
    }
    document = {"score": 1.0, "metrics": {}, "htmls": [], "metadata": {"example_level_metadata": [example, {}]}}
    verdict, refused = told(read(tmp_path, document))
    assert verdict == (MADE_UP, True, "", "No such drug.")
    assert refused == "simple-evals: 'rubric_items' of the example is missing"


def output_item(*results: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "object": "eval.run.output_item",
        "datasource_item": {"sample_id": SAMPLE, "criteria": [{"key": "R1"}, {"key": "R10"}]},
        "results": list(results),
        "sample": {"model": "gpt-9", "output": [{"role": "assistant", "content": "No such drug."}]},
        **changes,
    }


@pytest.mark.plain
def test_openai_evals_graders_named_after_criteria_are_read(tmp_path: Path) -> None:
    graders = {"name": "R1", "passed": True, "score": 1.0}, {"name": "R10-6f0a", "passed": False, "score": 0.0}
    verdicts = [("R1", True, "gpt-9", "No such drug."), ("R10", False, "gpt-9", "No such drug.")]
    assert told(read(tmp_path, {"object": "list", "data": [output_item(*graders)]})) == verdicts
    assert told(read(tmp_path, [output_item(*graders)], lines=True)) == verdicts
    one = output_item({"name": "Correct?", "passed": True, "score": 1.0})
    foreign = output_item(*graders, datasource_item={"question": "?"})
    event = {"run_id": "1", "event_id": 0, "sample_id": "mhb.0", "type": "metrics", "data": {"choice": "Yes"}}
    refused = told(read(tmp_path, [one, foreign, event], lines=True))
    assert "no grader is named after a criterion (R1, R10)" in refused[0]
    assert "'sample_id' and 'criteria' of the item are missing" in refused[1]
    assert "OpenAI Evals (open framework): a log of the open framework has one grade an answer" in refused[2]


def score(name: str, value: Any, **changes: Any) -> dict[str, Any]:
    return {"id": "s", "traceId": "t", "name": name, "value": value, "dataType": "BOOLEAN", "comment": None, **changes}


@pytest.mark.plain
def test_langfuses_traces_are_read_with_their_scores(tmp_path: Path) -> None:
    metadata = {"sample_id": SAMPLE, "model": "gpt-9"}
    trace = {"id": "t", "htmlPath": "/", "metadata": json.dumps(metadata), "input": "?", "output": {"content": "No."}}
    scored = {**trace, "scores": [score("R1", 1), score("R2", 0, comment="It does not.")]}
    verdicts = [("R1", True, "gpt-9", "No."), ("R2", False, "gpt-9", "No.")]
    assert told(read(tmp_path, [scored], lines=True)) == verdicts
    assert told(read(tmp_path, [scored])) == verdicts
    downloaded = {"trace": trace, "observations": [], "scores": [score("R1", 1)]}
    assert told(read(tmp_path, downloaded)) == verdicts[:1]
    others = [
        score("R1", 1),
        {**trace, "scores": {"R1": 0.5}},
        {**trace, "scores": [score("R1", 0.5)]},
        {**scored, "metadata": {}},
    ]
    refused = told(read(tmp_path, others, lines=True))
    for reason, words in zip(
        refused, ("export the traces", "means of scores", "neither 0 nor 1", "'sample_id'"), strict=True
    ):
        assert reason.startswith("Langfuse: ")
        assert words in reason


@pytest.mark.plain
def test_langsmiths_runs_are_read_with_their_feedback(tmp_path: Path) -> None:
    run = {
        "id": "r",
        "run_type": "chain",
        "inputs": {},
        "outputs": {"messages": [{"role": "assistant", "content": "No."}]},
        "extra": {"metadata": {"sample_id": SAMPLE, "ls_model_name": "gpt-9"}},
    }
    feedback = [
        {"key": "R1", "score": 1, "comment": "So."},
        {"key": "R2", "score": False},
        {"key": "R3", "score": None},
    ]
    stats = {"R1": {"n": 1, "avg": 0.0}}
    verdicts = told(read(tmp_path, [{**run, "feedback": feedback}, {**run, "feedback_stats": stats}], lines=True))
    assert [verdict[:2] for verdict in verdicts] == [("R1", True), ("R2", False), ("R3", None), ("R1", False)]
    assert {verdict[2:] for verdict in verdicts} == {("gpt-9", "No.")}
    others = [{**run, "feedback_stats": {"R1": {"n": 2, "avg": 0.5}}}, run, {**run, "extra": {}}]
    refused = told(read(tmp_path, others, lines=True))
    for reason, words in zip(refused, ("several judgments", "'feedback' of the run", "'sample_id'"), strict=True):
        assert words in reason


@pytest.mark.plain
def test_pages_of_a_tools_api_are_read(tmp_path: Path) -> None:
    metadata = {"sample_id": SAMPLE, "model": "m"}
    trace = {"id": "t", "htmlPath": "/", "metadata": metadata, "input": "?", "output": "No."}
    run = {"run_type": "llm", "extra": {"metadata": metadata}, "feedback": [{"key": "R1", "score": 1}]}
    generated = {"generations": [[{"text": "No.", "type": "ChatGeneration"}]]}
    verdict = ("R1", True, "m", "No.")
    assert told(read(tmp_path, {"data": [{**trace, "scores": [score("R1", 1)]}], "meta": {"page": 1}})) == [verdict]
    assert told(read(tmp_path, {"runs": [{**run, "outputs": generated}], "cursors": {}})) == [verdict]
    [ids] = told(read(tmp_path, {"data": [{**trace, "scores": ["a", "b"]}], "meta": {"page": 1}}))
    assert "ids of scores" in ids


@pytest.mark.plain
def test_rows_of_a_langsmith_evaluation_are_read(tmp_path: Path) -> None:
    result: dict[str, Any] = {"key": "R1", "score": 0, "comment": "So."}
    row = {
        "run": {"run_type": "chain", "outputs": {"output": "No."}},
        "example": {"metadata": {"sample_id": SAMPLE}},
        "evaluation_results": {"results": [result]},
    }
    assert told(read(tmp_path, [row], lines=True)) == [("R1", False, "", "No.")]
    for word, met in (("yes", True), ("no", False)):  # a category has no number
        result |= {"score": None, "value": word}
        assert told(read(tmp_path, [row], lines=True)) == [("R1", met, "", "No.")]


@pytest.mark.plain
def test_of_a_langfuse_category_the_word_counts(tmp_path: Path) -> None:
    category = {"name": "R1", "value": 1, "stringValue": "no", "dataType": "CATEGORICAL"}
    trace = {"id": "t", "htmlPath": "/", "metadata": {"sample_id": SAMPLE}, "output": "No.", "scores": [category]}
    assert told(read(tmp_path, trace)) == [("R1", False, "", "No.")]


@pytest.mark.plain
def test_an_answer_whose_text_is_elsewhere_is_not_an_empty_one(tmp_path: Path) -> None:
    run = {"run_type": "chain", "outputs": {"diagnosis": "No."}, "extra": {"metadata": {"sample_id": SAMPLE}}}
    [reason] = told(read(tmp_path, {**run, "feedback": [{"key": "R1", "score": 1}]}))
    assert reason == "LangSmith: the answer's text was not found in its output (diagnosis)"


@pytest.mark.plain
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"score": 0.4, "overall_score": 0.4, "accuracy:std": 0.1}, "_allresults.json"),
        ({"object": "eval.run", "id": "r", "result_counts": {"total": 2}}, "download its output items"),
        (
            {
                "object": "eval.run.output_item", "results": [],
                "datasource_item": {"sample_id": SAMPLE, "criteria": [{"key": "R1"}]},
                "sample": {"output": [], "error": {"code": "429", "message": "too many requests"}},
            },
            "failed there: too many requests",
        ),
    ],
)  # fmt: skip
def test_what_has_no_verdicts_is_refused_with_what_to_do(tmp_path: Path, data: Any, reason: str) -> None:
    [refused] = told(read(tmp_path, data))
    assert reason in refused


@pytest.mark.plain
def test_a_tools_table_is_refused_as_a_whole_and_a_stray_first_line_alone(tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_text("id,name,R1,R2\nt1,ask,1,0\n")
    with pytest.raises(errors.WrongResults, match="a table without the columns 'sample', 'rubric' and 'met'"):
        list(rows.read(path))
    path.write_text('started, please wait\n{"sample": "s", "rubric": "R1", "model": "m", "met": true}\n')
    assert [type(entry) for entry in rows.read(path)] == [files.RefusedRow, files.VerdictRow]


@pytest.mark.plain
@pytest.mark.parametrize(
    "data",
    [
        {"adapter_spec": {"method": "generation"}, "request_states": [], "annotator_specs": []},
        {"name": "medhelm", "scenario_spec": {}, "adapter_spec": {}, "metric_specs": []},
        [{"instance_id": "id1", "train_trial_index": 0, "stats": []}],
        [{"instance_id": "id1", "train_trial_index": 0, "predicted_text": "No.", "stats": {"exact_match": 1.0}}],
        [{"name": {"name": "exact_match", "split": "test"}, "count": 1, "sum": 1.0, "sum_squared": 1.0}],
    ],
)
def test_runs_of_helm_are_refused_by_name(tmp_path: Path, data: Any) -> None:
    """Of crfm-helm 0.5: state, specification, instances, predictions, statistics."""
    assert told(read(tmp_path, data)) == [
        "HELM: grades of whole answers, also by MedHELM's jury, and none of a criterion"
    ]


@pytest.mark.plain
@pytest.mark.parametrize(
    "junk", [{"testCase": 7}, {"run_type": 1, "outputs": 2}, {"object": "eval.run.output_item", "results": 3}]
)
def test_what_only_looks_like_a_tools_result_is_refused(tmp_path: Path, junk: Any) -> None:
    [reason] = told(read(tmp_path, [junk], lines=True))
    assert "not of the form" in reason or "missing" in reason


@pytest.mark.django_db
def test_a_criterion_is_matched_by_its_key_or_by_its_text(tmp_path: Path) -> None:
    release: Release = bare_release(("dialogue", [["A1"], ["C2"]]))
    texts = dict(release.samples.get().rubrics.values_list("key", "criterion"))
    result = promptfoo_result()
    for component, key in zip(result["gradingResult"]["componentResults"], ("R1", "R2"), strict=True):
        component["assertion"]["value"] = texts[key] if texts["R1"] != texts["R2"] else key
    entries = read(tmp_path, [result], lines=True)
    imported = importing.import_results(entries, release=release, study="promptfoo")
    assert (imported.added, imported.refused) == (2, 0)
    met = dict(Judgment.objects.values_list("rubric__key", "verdict"))
    assert met["R1"] != met["R2"]
