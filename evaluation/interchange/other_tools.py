"""Results of tools with a judge of their own.

promptfoo, simple-evals, OpenAI Evals, Langfuse, LangSmith and HELM.

What a tool calls a score is read where it is one criterion's: its name is the criterion's key or
text, and it says yes or no. Anything else is refused with what is missing, as a grade of a whole
answer says nothing of a criterion.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from evaluation.interchange.tool_logs import Found, Verdict, verdict_rows

Fields = Mapping[str, Any]


class Missing(Exception):
    """Why a tool's file has no verdicts on criteria."""


class _Answer(NamedTuple):
    """A scored answer. `refusals`: why some of its scores are no verdicts on a criterion."""

    sample: str
    model: str
    response: str
    verdicts: Sequence[Verdict]
    refusals: Sequence[str] = ()


def tool_of(value: Any) -> str:
    """The tool that wrote a JSON value, a whole file or a line of one; '' for none of these."""
    if not isinstance(value, dict):
        return ""
    for name, tool in _TOOLS.items():
        if tool.recognises(value):
            return name
    return ""


def answer_rows(where: str, value: Any) -> Iterator[Found]:
    """The verdicts of one answer or of a whole file of a tool that `tool_of` knows."""
    name = tool_of(value)
    tool = _TOOLS[name]
    entries = tool.entries(value)
    if not isinstance(entries, list):
        yield where, f"{name}: the results are missing"
        return
    for number, entry in enumerate(entries, 1):
        place = where
        if len(entries) > 1:
            place = f"{where}, result {number}"
        try:
            answer = tool.read(entry)
        except Missing as error:
            yield place, f"{name}: {error}"
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
            yield place, f"{name}: not of the form that it exports ({type(error).__name__})"
        else:
            about = {"sample": answer.sample, "model": answer.model, "response": answer.response}
            of_answer = f"{place}, sample {answer.sample!s:.100}"
            for refusal in answer.refusals:
                yield of_answer, f"{name}: {refusal}"
            yield from verdict_rows(of_answer, about, answer.verdicts)


def _read_scores(read: Callable[[Any], Verdict], scores: Iterable[Any]) -> tuple[list[Verdict], list[str]]:
    """The verdicts of an answer, and why some of its scores are none.

    Raises Missing if all scores are none.
    """
    verdicts, refusals = [], []
    for score in scores:
        try:
            verdicts.append(read(score))
        except Missing as error:
            refusals.append(str(error))
    if refusals and not verdicts:
        raise Missing(refusals[0])
    return verdicts, refusals


# ---------------------------------------------------------------------------------------- promptfoo


def _promptfoo_entries(value: Fields) -> Any:
    """The results of `promptfoo eval --output`: of a file, or one of them."""
    if "testCase" in value:
        return [value]
    results = value["results"]
    if isinstance(results, dict):
        return results.get("results")
    return results


def _promptfoo(result: Fields) -> _Answer:
    case, provider = result["testCase"], result.get("provider") or {}
    sample = (case.get("metadata") or {}).get("sample_id")
    if not sample:
        raise Missing("'metadata.sample_id' of the test case is missing, as only our export has it")
    if result.get("error") and not result.get("gradingResult"):
        raise Missing(f"sample {sample!s:.100} failed there: {result['error']!s:.200}")
    components = (result.get("gradingResult") or {}).get("componentResults") or []
    response = (result.get("response") or {}).get("output") or ""
    if isinstance(provider, str):
        model = provider
    else:
        model = provider.get("label") or provider.get("id") or ""
    if isinstance(response, str):
        text = response
    else:
        text = json.dumps(response)
    return _Answer(sample, model, text, *_read_scores(_promptfoo_verdict, components))


def _promptfoo_verdict(component: Fields) -> tuple[str, bool | None, str]:
    """A criterion is met where an `llm-rubric` passes, and where a `not-llm-rubric` does not."""
    assertion = component.get("assertion") or {}
    kind = assertion.get("type")
    if kind == "human":
        raise Missing("a person rated the answer as a whole, which is no verdict on a criterion")
    if kind not in ("llm-rubric", "not-llm-rubric"):
        raise Missing(f"an assertion is {kind!s:.40}, no llm-rubric on a criterion")
    passed = _promptfoo_passed(component, weighs=assertion.get("weight") != 0)
    criterion = str(assertion["value"]).replace('{{ "{" }}', "{")
    if kind == "llm-rubric" or passed is None:
        met = passed
    else:
        met = not passed
    return criterion, met, str(component.get("reason") or "")


def _promptfoo_passed(component: Fields, *, weighs: bool) -> bool | None:
    """Whether an assertion passes; None where its grader gave no verdict or contradicts its score.

    promptfoo 0.121.20: a grader that failed or could not be read fails both kinds of assertion, and
    one that replies with a score alone passes, whatever the score. Without a weight an assertion
    always passes.
    """
    if (component.get("metadata") or {}).get("graderError"):
        return None
    by_score: bool | None = {0: False, 1: True}.get(component.get("score", -1))
    if not weighs:
        return by_score
    passed = bool(component["pass"])
    contradicts = by_score is not None and by_score is not passed
    if contradicts:
        return None
    return passed


# ------------------------------------------------------------------------------------- simple-evals


def _simple_evals(example: Fields) -> _Answer:
    """An example in HealthBench's `…_allresults.json`."""
    items = example.get("rubric_items")
    if not items:
        raise Missing("'rubric_items' of the example is missing")
    verdicts = [(item["criterion"], item["criteria_met"], str(item.get("explanation") or "")) for item in items]
    return _Answer(example["prompt_id"], "", _text(example.get("completion")), verdicts)


def _simple_evals_summary(value: Fields) -> _Answer:  # noqa: ARG001
    raise Missing("scores of a whole run and no verdicts; import the file that ends in _allresults.json")


def _text(messages: Any) -> str:
    """The text of the last of some messages, or of one."""
    last = messages
    if isinstance(messages, list) and messages:
        last = messages[-1]
    content = last
    if isinstance(last, dict):
        content = last.get("content")
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content)
    if isinstance(content, str):
        return content
    return ""


# ------------------------------------------------------------------------------------- OpenAI Evals


def _openai_item(item: Fields) -> _Answer:
    """An output item of a run, from the API."""
    datasource: Fields = item.get("datasource_item") or {}
    source: Any = datasource.get("item", datasource)
    keys = [criterion["key"] for criterion in source.get("criteria") or ()]
    if not source.get("sample_id") or not keys:
        raise Missing("'sample_id' and 'criteria' of the item are missing, as only our export has them")
    sample = item.get("sample") or {}
    if error := sample.get("error"):
        raise Missing(f"sample {source['sample_id']!s:.100} failed there: {error.get('message') or error!s:.200}")
    graded = {}
    for result in item.get("results") or ():
        if key := _criterion(str(result["name"]), keys):
            graded[key] = result
    if not graded:
        raise Missing(f"no grader is named after a criterion ({', '.join(keys):.100})")
    scores = [(key, result.get("passed"), "") for key, result in graded.items()]
    model, response = str(sample.get("model") or ""), _text(sample.get("output"))
    return _Answer(source["sample_id"], model, response, *_read_scores(_scored, scores))


def _criterion(name: str, keys: list[str]) -> str:
    """The criterion after which a grader is named; the platform adds '-' and an id."""
    for key in keys:
        if name == key or name.startswith(f"{key}-"):
            return key
    return ""


def _openai_log(value: Fields) -> _Answer:  # noqa: ARG001
    raise Missing("a log of the open framework has one grade an answer and none a criterion")


def _openai_run(value: Fields) -> _Answer:  # noqa: ARG001
    raise Missing("counts of a run and no verdicts; download its output items")


# ----------------------------------------------------------------------- Langfuse, LangSmith, HELM

# In what tracers wrap an answer's text, the first one that is there.
_WRAPPERS = ("output", "answer", "response", "content", "text", "messages", "choices", "message", "generations")


def _langfuse(value: Fields) -> _Answer:
    """A trace with its scores, as the button for JSON or the table of traces writes it."""
    trace = value.get("trace", value)
    scores = value.get("scores", trace.get("scores"))
    if "traceId" in value and "output" not in value:
        raise Missing("scores without their answers; export the traces, with their scores")
    if not isinstance(scores, list):
        raise Missing("means of scores instead of each score; download the trace as JSON")
    if any(isinstance(one, str) for one in scores):
        raise Missing("ids of scores instead of the scores, as its list of traces has them; download each trace")
    told = _metadata(trace.get("metadata"), "the trace")
    found = [(one["name"], _langfuse_value(one), one.get("comment")) for one in scores]
    model, response = str(told.get("model") or ""), _output(trace.get("output"))
    return _Answer(told["sample_id"], model, response, *_read_scores(_scored, found))


def _langfuse_value(score: Fields) -> Any:
    """What a score says: its word where it has one, as the number of a category means nothing."""
    word = score.get("stringValue", score.get("string_value"))
    if word:
        return word
    return score.get("value")


def _langsmith(value: Fields) -> _Answer:
    """A run with its feedback."""
    if "evaluation_results" in value:
        return _langsmith_evaluated(value)
    told = _metadata((value.get("extra") or {}).get("metadata") or value.get("metadata"), "the run")
    feedback, stats = value.get("feedback"), value.get("feedback_stats") or {}
    if isinstance(feedback, list):
        scores = [(one["key"], _langsmith_value(one), one.get("comment")) for one in feedback]
        verdicts, refusals = _read_scores(_scored, scores)
    elif stats:
        verdicts, refusals = _read_scores(_langsmith_mean, stats.items())
    else:
        raise Missing("'feedback' of the run is missing")
    model = told.get("model") or told.get("ls_model_name") or ""
    return _Answer(told["sample_id"], str(model), _output(value.get("outputs")), verdicts, refusals)


def _langsmith_value(feedback: Fields) -> Any:
    """What feedback says: its score, or its value where that is no number."""
    score = feedback.get("score")
    if score is None:
        return feedback.get("value")
    return score


def _langsmith_evaluated(row: Fields) -> _Answer:
    """A row of what `evaluate` returns: a run, its example and the evaluators' results."""
    told = _metadata(row["example"].get("metadata"), "the example")
    results = row["evaluation_results"]["results"]
    scores = [(one["key"], _langsmith_value(one), one.get("comment")) for one in results]
    verdicts, refusals = _read_scores(_scored, scores)
    return _Answer(told["sample_id"], str(told.get("model") or ""), _output(row["run"]["outputs"]), verdicts, refusals)


def _langsmith_mean(of_key: tuple[Any, Fields]) -> Verdict:
    key, stats = of_key
    if stats.get("n") != 1:
        raise Missing(f"{key!s:.100} has a mean of several judgments; export the feedback itself")
    return _scored((key, stats.get("avg"), ""))


def _helm(value: Fields) -> _Answer:  # noqa: ARG001
    raise Missing("grades of whole answers, also by MedHELM's jury, and none of a criterion")


def _metadata(metadata: Any, of: str) -> Fields:
    told = metadata
    if isinstance(metadata, str):
        told = json.loads(metadata)
    if not isinstance(told, dict) or not told.get("sample_id"):
        raise Missing(f"'sample_id' is missing in the metadata of {of}")
    return told


def _output(output: Any) -> str:
    """The text of an answer, in whatever a tracer has wrapped it.

    Raises Missing where there is something without it: an answer without text counts as empty.
    """
    if isinstance(output, dict):
        for name in _WRAPPERS:
            if name in output:
                return _output(output[name])
        raise Missing(f"the answer's text was not found in its output ({', '.join(map(str, output)):.100})")
    text = _text(output)
    if not text and isinstance(output, list) and output:
        return _output(output[-1])
    return text


def _scored(score: tuple[Any, Any, Any]) -> Verdict:
    """The verdict of a score: its name, value and comment. Raises Missing for one in between."""
    name, value, comment = score
    try:
        return str(name), _yes(value), str(comment or "")
    except ValueError as error:
        raise Missing(
            f"the score {name!s:.100} is {value!s:.20}, neither 0 nor 1: it is none of a criterion"
        ) from error


def _yes(value: Any) -> bool | None:
    """Whether a score says that the criterion is met. Raises ValueError for one in between."""
    if value is None:
        return None
    word = value
    if isinstance(value, str):
        word = value.strip().casefold()
    if word in (1, True, "true", "1", "yes"):
        return True
    if word in (0, False, "false", "0", "no"):
        return False
    raise ValueError(value)


def _is_openai_item(value: Fields) -> bool:
    return "eval.run.output_item" in (value.get("object"), _first(value, "data").get("object"))


def _is_openai_run(value: Fields) -> bool:
    return "eval.run" in (value.get("object"), _first(value, "data").get("object"))


def _is_openai_log(value: Fields) -> bool:
    spec = value.get("spec")
    return {"run_id", "event_id", "data"} <= value.keys() or (isinstance(spec, dict) and "completion_fns" in spec)


def _is_langfuse(value: Fields) -> bool:
    return _is_langfuse_entry(value) or _is_langfuse_entry(_first(value, "data"))


def _is_langfuse_entry(value: Fields) -> bool:
    known = ({"traceId", "dataType"}, {"trace", "observations"}, {"htmlPath", "scores"}, {"scores", "input", "output"})
    return any(names <= value.keys() for names in known)


def _first(value: Fields, name: str) -> Fields:
    """The first of the objects that a tool's API lists under a name; an empty one without them."""
    listed = value.get(name)
    if isinstance(listed, list) and listed and isinstance(listed[0], dict):
        return listed[0]
    return {}


def _itself(value: Fields) -> Any:
    return [value]


def _listed(name: str) -> Callable[[Fields], Any]:
    """The entries of a page of a tool's API, which lists them under a name, or the one entry."""

    def entries(value: Fields) -> Any:
        if isinstance(value.get(name), list):
            return value[name]
        return [value]

    return entries


class _Tool(NamedTuple):
    """How the file of a tool, or a line of one, is recognised; its entries; the answer of each."""

    recognises: Callable[[Fields], bool]
    entries: Callable[[Fields], Any]
    read: Callable[[Fields], _Answer]


def _is_promptfoo(value: Fields) -> bool:
    return "testCase" in value or {"evalId", "results"} <= value.keys()


def _is_simple_evals(value: Fields) -> bool:
    metadata = value.get("metadata")
    return isinstance(metadata, dict) and "example_level_metadata" in metadata


def _simple_evals_entries(value: Fields) -> Any:
    return value["metadata"]["example_level_metadata"]


def _is_simple_evals_summary(value: Fields) -> bool:
    return "score" in value and all(isinstance(number, int | float) for number in value.values())


def _is_langsmith(value: Fields) -> bool:
    return _is_langsmith_entry(value) or _is_langsmith_entry(_first(value, "runs"))


def _is_langsmith_entry(value: Fields) -> bool:
    known = ({"run_type", "outputs"}, {"run", "example", "evaluation_results"})
    return any(names <= value.keys() for names in known)


def _is_helm(value: Fields) -> bool:
    """A run's specification or state, what came of an instance, or a statistic (crfm-helm 0.5)."""
    known = ({"adapter_spec"}, {"instance_id", "train_trial_index"}, {"name", "count", "sum", "sum_squared"})
    return any(names <= value.keys() for names in known)


_TOOLS = {
    "promptfoo": _Tool(_is_promptfoo, _promptfoo_entries, _promptfoo),
    "simple-evals": _Tool(_is_simple_evals, _simple_evals_entries, _simple_evals),
    "simple-evals (scores)": _Tool(_is_simple_evals_summary, _itself, _simple_evals_summary),
    "OpenAI Evals": _Tool(_is_openai_item, _listed("data"), _openai_item),
    "OpenAI Evals (a run)": _Tool(_is_openai_run, _itself, _openai_run),
    "OpenAI Evals (open framework)": _Tool(_is_openai_log, _itself, _openai_log),
    "Langfuse": _Tool(_is_langfuse, _listed("data"), _langfuse),
    "LangSmith": _Tool(_is_langsmith, _listed("runs"), _langsmith),
    "HELM": _Tool(_is_helm, _itself, _helm),
}
