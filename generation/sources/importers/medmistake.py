"""MedMistake: single-shot scenarios that repeat mistakes of models, as two JSON arrays.

``medmistake-all.json`` has `mistake_title`, `all_tested_scenarios` and the attempts;
``medmistake-validated.json`` has ids, `mistake_name`, `mistake_description` and `mistake_tags`.
Their common columns are not documented, so several names are accepted for each value
(`column`); if none of them is found, the message lists the file's columns.
"""

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, StrictBool

from generation.sources.importers import tabular
from generation.sources.importers.base import (
    Layout,
    Malformed,
    Row,
    gettext_noop,
    language_fields,
)
from generation.sources.importers.medpi import Said
from generation.sources.importers.records import AnyText, FoldedRecord, Stripped, Text, column, listed, one_of
from generation.sources.importers.tabular import ARRAY, File, RecordFormat

name = "medmistake"
label = "MedMistake"
licence = "CC-BY-4.0"
citation = (
    "Proniakin O, Fajardo D, Nazarenko R, Marinescu R. Automatic Replication of LLM Mistakes in Medical Conversations."
    " arXiv:2512.20983 (2025)."
)
restrictions = gettext_noop(
    "made by models; published scenarios were chosen because GPT-5 or Gemini 2.5 Pro fails them"
)

RISKS = ("low", "medium", "high", "critical")
MAX_TAGS = 10


_SCENARIO = ("scenario", "mistake_scenario", "clinical_scenario", "single_shot_scenario", "question", "prompt")


def _tags(tags: Any) -> list[str]:
    if isinstance(tags, str):
        tags = tags.split(",")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError("is not a list of texts")
    return [tag.strip() for tag in tags if tag.strip()][:MAX_TAGS]


class _Tested(FoldedRecord):
    """A scenario, and a model's answer to it if the file has one."""

    scenario: Text = column(*_SCENARIO)
    model: Stripped = column("model", "model_name", "tested_model", default="")
    response: Stripped = column("response", "model_response", default="")
    same: StrictBool | None = column("same_mistake_happened", "replicated", "mistake_replicated", default=None)
    rationale: Stripped = column("rationale", "explanation", "judge_rationale", default="")
    success_reason: Stripped = ""
    error: Stripped = ""

    def shown(self) -> dict[str, Any]:
        return {
            "role": "",
            "model": self.model,
            "response": self.response,
            "same_mistake_happened": self.same,
            "explanation": " ".join(filter(None, (self.rationale, self.success_reason, self.error))),
        }


def _scenario_alone(given: Any) -> Any:
    """A tested scenario that is only its text."""
    if isinstance(given, str):
        return {"scenario": given}
    return given


class _Mistake(FoldedRecord):
    scenario: Stripped = column(*_SCENARIO, default="")
    rationale: Stripped = column("rationale", "explanation", "judge_rationale", default="")
    tested: Annotated[
        list[Annotated[_Tested, BeforeValidator(_scenario_alone)]],
        BeforeValidator(listed),
    ] = column("all_tested_scenarios", "tested_scenarios", default=[], title="tested scenario")
    title: Text = column("mistake_title", "mistake_name", "title")
    description: Stripped = column("mistake_description", "description", default="")
    category: Stripped = column("mistake_category", "category", default="")
    reason: Stripped = column("mistake_reason", "probable_reason", "reason", default="")
    tags: Annotated[list[str], BeforeValidator(_tags)] = column("mistake_tags", "tags", default=[])
    risk: Annotated[Stripped, one_of(*RISKS, "")] = column("mistake_risk", "risk_level", "risk", default="")
    must: Stripped = column(
        "must", "expected_behavior", "expected_answer", "correct_answer", "correct_behavior", "answer", default=""
    )
    doctor: Stripped = column("doctor", "doctor_model", "source_model", default="")
    case_id: AnyText = ""
    mistake_id: AnyText = column("mistake_id", "id", default="")
    conversation: Annotated[list[Said], BeforeValidator(listed)] = column(
        "conversation", "messages", "turns", default=[], title="turn"
    )

    @classmethod
    def missing(cls, present: Collection[str]) -> str:
        """The required columns that are not there, and those that are; '' if none is missing."""
        missing = super().missing(present)
        if not cls.has("scenario", present) and not cls.has("tested", present):
            if missing:
                missing += " and "
            missing += "a scenario or 'all_tested_scenarios'"
        if missing:
            return f"{missing}; found: {', '.join(sorted(present))[:300]}"
        return ""

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """The record; its own scenario is the last of those that were tested."""
        mistake = super().read(record)
        if mistake.scenario:
            mistake.tested.append(_Tested.read(record))
        return mistake


def sniff(path: Path) -> Layout:
    """Raises WrongFormat, naming the columns, unless an early record is complete."""
    FORMAT.sniff(path)
    found = (record for _where, record in tabular.records(path, ARRAY) if isinstance(record, dict))
    complete = next(record for record in found if not _Mistake.missing(record))
    if _Mistake.has("tested", complete):
        return Layout("all")
    return Layout("validated")


def _row(record: _Mistake, file: File) -> Row:
    """Row.content: {kind: 'mistake-scenario', scenario, must, mistake, doctor, targets: [str],
    replicated, conversation: [{role, text}], attempts: [...], validated}.

    mistake: {title, description, category, reason, tags, risk, turns, members}. `attempts` are the
    tested scenarios, each with its results.
    """
    attempts = _attempts(record)
    chosen = attempts[-1]
    replicated = [attempt for attempt in attempts if attempt["replicated"]]
    if replicated:
        chosen = replicated[0]
    mistake: dict[str, Any] = {
        **record.model_dump(include={"title", "reason", "tags", "risk"}),
        "description": record.description or record.rationale or record.title,
        "category": "-".join(record.category.casefold().split()),  # a code of the taxonomy
        "turns": [],
        "members": [],
    }
    scenario, validated = record.scenario or chosen["scenario"], file.layout == "validated"
    models: dict[str, None] = {}
    for attempt in attempts:
        models |= dict.fromkeys(result["model"] for result in attempt["results"] if result["model"])
    # The file's ids, if it has them.
    external_id = record.mistake_id
    if record.mistake_id and record.case_id:
        external_id = f"{record.case_id}-{record.mistake_id}"
    conversation = [turn.model_dump() for turn in record.conversation if turn.role]
    digest = hashlib.sha256(f"{record.title}\x1f{scenario}".encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return Row(
        external_id=external_id or digest,
        title=record.title,
        **language_fields(scenario),
        content={
            "kind": "mistake-scenario",
            "scenario": scenario,
            # The judge must be told what is right. If the authors do not say, it is not making the
            # mistake.
            "must": record.must or f"The answer must not make this mistake: {mistake['description']}",
            "mistake": mistake,
            "doctor": record.doctor,
            "targets": list(models),
            "replicated": chosen["replicated"] or validated,
            "conversation": conversation,
            "attempts": attempts,
            "validated": validated,
        },
        facets={key: mistake[key] for key in ("category", "risk") if mistake[key]},
    )


def _attempts(record: _Mistake) -> list[dict[str, Any]]:
    """The distinct scenarios, the record's own among them, with the results of all models."""
    results_by_text: dict[str, list[dict[str, Any]]] = {}
    for tested in record.tested:
        results = results_by_text.setdefault(tested.scenario, [])
        if tested.same is not None or tested.response:
            result = tested.shown()
            if result not in results:
                results.append(result)
    if not results_by_text:
        raise Malformed("'all_tested_scenarios' is empty, and there is no other scenario.")
    attempts = []
    for number, (text, results) in enumerate(results_by_text.items(), 1):
        attempts.append(
            {
                "number": number,
                "scenario": text,
                "must": "",
                "prompt": "",
                "gives_away": [],
                "results": results,
                "replicated": any(result["same_mistake_happened"] is True for result in results),
            }
        )
    return attempts


FORMAT = RecordFormat(label, _Mistake, _row, {"all": ARRAY, "validated": ARRAY})
rows = FORMAT.rows
