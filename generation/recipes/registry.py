"""Looks up benchmarks by name. Nothing has to be registered (`review.common.benchmarks`)."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import isfinite
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from generation.errors import UnknownBenchmark, UnknownPreset, WrongPlan, WrongSetting
from generation.llm.request_body import with_schema
from generation.llm.types import Request
from generation.recipes.recipe import ModelRole, NewSample, Preset, Recipe, Term, TrapPlan
from generation.recipes.text_similarity import IDENTICAL, NEARLY_IDENTICAL
from generation.recipes.trap_plan import read_plan
from review.common import benchmarks
from review.rules import json_nesting
from review.rules.case_spec import CaseSpec

N = TypeVar("N", Preset, TrapPlan)
_LABELS = {IDENTICAL: _("Identical to another sample"), NEARLY_IDENTICAL: _("Nearly identical to another sample")}


def names() -> list[str]:
    """The names of all benchmarks."""
    return list(benchmarks.names())


@cache
def module(benchmark: str, part: str) -> ModuleType:
    """The module `mhb_site.benchmarks.<benchmark>.<part>`.

    Raises UnknownBenchmark, which names the known ones.
    """
    if benchmark not in names():
        raise UnknownBenchmark(f"{benchmark!r}; known: {', '.join(names())}")
    return import_module(f"{benchmarks.package(benchmark)}.{part}")


def recipe(benchmark: str) -> Recipe:
    """The benchmark's `recipe.RECIPE`."""
    declared: Recipe = module(benchmark, "recipe").RECIPE
    return declared


def label(benchmark: str) -> str:
    """The benchmark's label; its name if its folder is gone."""
    try:
        return recipe(benchmark).label
    except UnknownBenchmark:
        return benchmark


@cache
def _task_labels(known: tuple[str, ...]) -> Mapping[str, str]:
    labels: dict[str, str] = {}
    for benchmark in known:
        if find_spec(f"{benchmarks.package(benchmark)}.taxonomy"):
            labels |= getattr(module(benchmark, "taxonomy"), "TASKS", ())
    return labels


def task_label(task: str) -> str:
    """The label of a task in its benchmark's `taxonomy.TASKS`; the task's name if it has none."""
    return _task_labels(benchmarks.names()).get(task, task)


NO_PLAN = "none"
CUSTOM_PLAN = _("own")  # the stored name of a plan, or of settings, that came with the launch


def _named(offered: Sequence[N], name: str, wrong: type[Exception], *others: str) -> N | None:
    """The entry with this name, the first for ""; None for "" if there are none.

    Raises `wrong`, which names the known ones and `others`.
    """
    for entry in offered:
        if entry.name == name or not name:
            return entry
    if name:
        known = [*(entry.name for entry in offered), *others]
        raise wrong(f"{name!r}; known: {', '.join(known) or '-'}")
    return None


def plan(benchmark: str, name: str = "") -> TrapPlan | None:
    """The recipe's trap plan with this name: "" for the default, if any, "none" for no plan.

    Raises WrongPlan.
    """
    if name == NO_PLAN:
        return None
    return _named(recipe(benchmark).plans, name, WrongPlan, NO_PLAN)


def plan_label(benchmark: str, name: str) -> str:
    """The label of a trap plan, in the reader's language; its name if it has none."""
    for known in recipe(benchmark).plans:
        if known.name == name and known.label:
            return gettext(known.label)
    return gettext(name)


def resolve_plan(benchmark: str, plan_spec: object) -> TrapPlan | None:
    """Resolve a trap plan given by name, or as JSON (see `generation.recipes.trap_plan.read_plan`).

    Raises WrongPlan.
    """
    if isinstance(plan_spec, str):
        return plan(benchmark, plan_spec)
    return read_plan(plan_spec, CUSTOM_PLAN)


def preset(benchmark: str, name: str = "") -> Preset | None:
    """The recipe's preset with this name: "" for the default; None if it has no presets.

    Raises UnknownPreset.
    """
    return _named(recipe(benchmark).presets, name, UnknownPreset)


def resolve_prompt_set(benchmark: str, prompts: str = "", preset_name: str = "") -> str:
    """The prompt set of a launch: the one it names, else the one of its preset.

    Raises UnknownPreset.
    """
    chosen = preset(benchmark, preset_name)
    if not prompts and chosen:
        return chosen.prompts
    return prompts


# Settings that the engine reads, where a recipe has them: at least and at most.
RANGES: Mapping[str, tuple[int, int]] = {
    "versions": (1, 10),  # of a sample, before it is discarded
    "returns": (0, 5),  # of a draft to the generator, before it waits for an admin
}


def resolve_settings(benchmark: str, name: str = "", changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values of a preset with a launch's overrides; {} if the recipe has no presets.

    The preset "" is the default one. An override must be of a kind that the setting has in some
    preset: null, a boolean, a number, or a list of the same length. It must be an integer if all
    those values are; a word must be one of the presets' or of the recipe's `choices`. Raises
    UnknownPreset, WrongSetting.
    """
    chosen = preset(benchmark, name)
    values = {}
    if chosen:
        values = dict(chosen.values)
    if unknown := sorted(set(changes or {}) - set(values)):
        raise WrongSetting(f"{', '.join(unknown)}; known: {', '.join(values) or '-'}")
    for key, value in (changes or {}).items():
        known = known_values(benchmark, key)
        low, high = RANGES.get(key, (None, None))
        if low is not None and high is not None and _is_same_kind(value, low) and not low <= value <= high:
            raise WrongSetting(f"{key}: {json.dumps(value)}; from {low} to {high}")
        if not any(_is_same_kind(value, example) for example in known):
            examples = ", ".join(map(json.dumps, known[:5]))
            raise WrongSetting(f"{key}: {json.dumps(value)[:100]}; for example: {examples}")
        values[key] = value
    return values


def setting_label(benchmark: str, name: str) -> str:
    """What pages call a setting; its name if the recipe lost it."""
    return gettext(recipe(benchmark).setting_labels.get(name, name))


def known_values(benchmark: str, name: str) -> list[Any]:
    """The values of a setting in the recipe's presets and choices."""
    in_presets = [preset.values[name] for preset in recipe(benchmark).presets if name in preset.values]
    return [*in_presets, *recipe(benchmark).choices.get(name, ())]


def read_setting(text: str) -> Any:
    """The value of a setting as a person types it: JSON, or a word."""
    try:
        return json_nesting.loads(text)
    except ValueError:
        return text


def _is_same_kind(value: Any, known: Any) -> bool:
    """Whether a value is of a known one's kind: words equal, numbers finite and not negative."""
    if isinstance(known, bool) or known is None:
        return isinstance(value, type(known))
    if isinstance(known, int | float):
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return (
            is_integer or (isinstance(value, float) and isinstance(known, float) and isfinite(value))
        ) and value >= 0
    if isinstance(known, list | tuple):
        return isinstance(value, list) and len(value) == len(known) and all(map(_is_same_kind, value, known))
    return bool(value == known)


def roles_for(benchmark: str, kinds: Collection[str], checks: Collection[str] | None = None) -> tuple[ModelRole, ...]:
    """The recipe's roles that records of these kinds need, including optional ones.

    `checks`: the checks that run; None: all of them.
    """
    needed = []
    for role in recipe(benchmark).roles:
        has_kind = not role.kinds or role.kinds & set(kinds)
        has_check = not role.checks or checks is None or role.checks & set(checks)
        if has_kind and has_check:
            needed.append(role)
    return tuple(needed)


def role_name(benchmark: str, name: str) -> str:
    """A role's short name, without the description of its task; its key if the recipe lost it."""
    label = name
    for role in recipe(benchmark).roles:
        if role.name == name:
            label = role.label
    return re.split("[:：]", gettext(label))[0]


def check_names(benchmark: str) -> tuple[str, ...]:
    """The checks of the benchmark's drafts before physicians see them; the engine's come first."""
    benchmark_recipe = recipe(benchmark)
    recipe_checks = tuple(check.name for check in benchmark_recipe.checks)
    if benchmark_recipe.compared is None:
        return recipe_checks
    return (IDENTICAL, NEARLY_IDENTICAL, *recipe_checks)


def check_label(benchmark: str, name: str) -> str:
    """The label of a check, to be translated; its name if the recipe no longer has the check."""
    for check in recipe(benchmark).checks:
        if check.name == name:
            return check.label
    return _LABELS.get(name, name)


def case_spec(benchmark: str, sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """A sample version's case, from the benchmark's `review.case(sample, lineage, version)`."""
    spec: CaseSpec = module(benchmark, "review").case(sample, lineage, version)
    return spec


def supervision(benchmark: str) -> ModuleType | None:
    """The benchmark's `supervision` module (`STAGES`, `example`), or None."""
    recipe_module = module(benchmark, "recipe")
    if find_spec(f"{recipe_module.__package__}.supervision") is None:
        return None
    return module(benchmark, "supervision")


def built_in_terms(benchmark: str) -> tuple[Term, ...]:
    """The benchmark's own `taxonomy.TERMS`."""
    declared: tuple[Term, ...] = module(benchmark, "taxonomy").TERMS
    return declared


def facet_fields(benchmark: str) -> tuple[str, ...] | None:
    """The fields of a sample's content that `facets` reads, from `taxonomy.FACET_FIELDS`.

    None: it may read any.
    """
    return getattr(module(benchmark, "taxonomy"), "FACET_FIELDS", None)


def _protocol(benchmark: str) -> Any:
    return module(benchmark, "protocol").PROTOCOL


def _sent(messages: Iterable[Any]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def question_messages(benchmark: str, key: str, task: str, content: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """What a model under test is sent for a sample, from the benchmark's `protocol.PROTOCOL`.

    None if the benchmark asks several questions about a sample, or reads the answers by code: no
    other tool could do that.
    """
    protocol = _protocol(benchmark)
    if not getattr(protocol, "judge", None):
        return None
    questions = protocol.ask(SimpleNamespace(key=key, task=task, content=content), 0)
    if len(questions) == 1:
        return _sent(questions[0].messages)
    return None


def training_example(benchmark: str, key: str, task: str, content: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a model is trained on for a sample: messages, names of origins, the publishers' split.

    From the benchmark's `protocol.PROTOCOL`; None if it offers no training example.
    """
    protocol, sample = _protocol(benchmark), SimpleNamespace(key=key, task=task, content=content)
    if not getattr(protocol, "example", None):
        return None
    origins: list[str] = []
    if getattr(protocol, "kept_together", None):
        origins = list(protocol.kept_together(sample))
    return {
        "messages": _sent(protocol.example(sample)),
        "origins": origins,
        "split": str(content.get("split") or ""),
    }


RESPONSE, CRITERION = "@@RESPONSE@@", "@@CRITERION@@"


def judge_messages(benchmark: str, key: str, task: str, content: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """What a judge is sent to decide on one criterion, with placeholders for it and the response.

    None if the benchmark's judge is asked in another way.
    """
    protocol, sample = _protocol(benchmark), SimpleNamespace(key=key, task=task, content=content)
    if not getattr(protocol, "judge", None):
        return None
    rubric = SimpleNamespace(key="R1", criterion=CRITERION, traps=())
    messages = _sent(protocol.judge(sample, rubric, "", RESPONSE).messages)
    text = "".join(message["content"] for message in messages)
    if text.count(RESPONSE) == text.count(CRITERION) == 1:
        return messages
    return None


def judging(benchmark: str) -> dict[str, Any] | None:
    """How other tools read a judge's verdict on one criterion, and which rates they count from it.

    `field`: the boolean in the judge's reply that decides; true speaks for the model. `aside`: the
    booleans that leave the criterion without a verdict if true. `schema`, `temperature`: of the
    judge. `empty`: the verdict on an answer without text, usually none. `rates`: those that count
    criteria alike, or their points, the benchmark's first one first. `only`: the field of a
    criterion and the value that restrict a rate. `hit`: the verdict it counts. None if the
    benchmark's judge replies in another way.
    """
    protocol = _protocol(benchmark)
    if not getattr(protocol, "judge", None):
        return None
    schema: Mapping[str, Any] = with_schema(Request(()), protocol.shape).schema or {}
    flags = [name for name, value in schema["properties"].items() if value.get("type") == "boolean"]
    for flag in flags:
        if found := _judging_by(flag, flags, schema, protocol):
            return found
    return None


def _judging_by(field: str, flags: list[str], schema: Mapping[str, Any], protocol: Any) -> dict[str, Any] | None:
    """`judging` by one boolean of the reply; None if no rate counts what it decides."""
    reply = {**dict.fromkeys(schema["properties"], ""), **dict.fromkeys(flags, False)}

    def verdict(flag: str, value: bool) -> str:
        return str(protocol.decide(protocol.shape.model_construct(**{**reply, flag: value})).verdict)

    verdicts = {verdict(field, met): met for met in (True, False)}
    aside = [flag for flag in flags if flag != field]
    if any(verdict(flag, True) in verdicts for flag in aside):
        return None
    rates = []
    for rate in protocol.rates:
        points = bool(rate.score and rate.score.points)
        counts_alike = rate.counted == dict.fromkeys(verdicts, 1) and len(rate.hits) == 1
        is_summed = points or (not rate.score and rate.is_proportion)
        if counts_alike and is_summed and (rate.only is None or rate.only.facet in ("polarity", "key")):
            rates.append(
                {
                    "name": rate.name,
                    "arm": rate.arm,
                    "unit": rate.unit,
                    "only": rate.only and list(rate.only),
                    "points": points,
                    "hit": verdicts[next(iter(rate.hits))],
                }
            )
    if not rates or any(verdicts.get(verdict) for verdict in protocol.failing_verdicts):
        return None
    return {
        "field": field,
        "aside": aside,
        "schema": dict(schema),
        "temperature": protocol.judge_temperature,
        "empty": verdicts.get(protocol.outcomes.get("empty", "")),
        "rates": rates,
    }


def points_facet(benchmark: str) -> str:
    """The facet whose values weight a benchmark's criteria, some below 0; empty: equal weights."""
    rates = getattr(_protocol(benchmark), "rates", ())
    for rate in rates:
        if rate.score and rate.score.points:
            return str(rate.score.points)
    return ""


def facets(
    benchmark: str, task: str, traps: list[str], terms: tuple[Term, ...], content: Mapping[str, Any]
) -> dict[str, list[str]]:
    """The values to count a rubric under, from `taxonomy.facets(task, traps, terms, content)`.

    It reads only the `facet_fields` of the sample's `content`.
    """
    values: dict[str, list[str]] = module(benchmark, "taxonomy").facets(task, traps, terms, content)
    return values
