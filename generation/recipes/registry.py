"""Finds benchmarks by name: every folder of the package `settings.MHB_BENCHMARKS` is one. No registry, no central edit."""

import json
import pkgutil
import re
from collections.abc import Collection, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import isfinite
from types import ModuleType, SimpleNamespace
from typing import Any

from django.conf import settings
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from generation.errors import UnknownBenchmark, UnknownPreset, WrongPlan, WrongSetting
from generation.recipes.recipe import ModelRole, NewSample, Preset, Recipe, Term, TrapPlan
from generation.recipes.text_similarity import ALIKE, IDENTICAL
from generation.recipes.trap_plan import PlanMistake, read_plan
from review.rules.case_spec import CaseSpec

_LABELS = {IDENTICAL: _("Identical to another sample"), ALIKE: _("Nearly identical to another sample")}


def names() -> list[str]:
    """The benchmarks there are."""
    package = import_module(settings.MHB_BENCHMARKS)
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg)


@cache
def module(benchmark: str, part: str) -> ModuleType:
    """`mhb_site.benchmarks.<benchmark>.<part>`. Raises UnknownBenchmark naming those there are."""
    if benchmark not in names():
        raise UnknownBenchmark(f"{benchmark!r}; known: {', '.join(names())}")
    return import_module(f"{settings.MHB_BENCHMARKS}.{benchmark}.{part}")


def recipe(benchmark: str) -> Recipe:
    """The benchmark's `recipe.RECIPE`."""
    found: Recipe = module(benchmark, "recipe").RECIPE
    return found


def label(benchmark: str) -> str:
    """What a benchmark calls itself; its name where its folder is gone."""
    try:
        return recipe(benchmark).label
    except UnknownBenchmark:
        return benchmark


@cache
def _task_labels() -> Mapping[str, str]:
    with_terms = [each for each in names() if find_spec(f"{settings.MHB_BENCHMARKS}.{each}.taxonomy")]
    return {name: label for each in with_terms for name, label in getattr(module(each, "taxonomy"), "TASKS", ())}


def task_label(task: str) -> str:
    """What its benchmark calls a task (`taxonomy.TASKS`, which may be left out); else its name."""
    return _task_labels().get(task, task)


NO_PLAN = "none"
OWN_PLAN = "own"  # the name of a plan that a launch wrote itself


def plan(benchmark: str, name: str = "") -> TrapPlan | None:
    """The recipe's plan of this name; "" is the usual one (if it has any), "none" is none. Raises WrongPlan."""
    plans = recipe(benchmark).plans
    if name == NO_PLAN or not (plans or name):
        return None
    found = next((plan for plan in plans if plan.name == name or not name), None)
    if found is None:
        raise WrongPlan(f"{name!r}; known: {', '.join([*(plan.name for plan in plans), NO_PLAN])}")
    return found


def plan_of(benchmark: str, said: object) -> TrapPlan | None:
    """A plan by its name, or as the JSON object of `generation.recipes.trap_plan.read_plan`. Raises WrongPlan."""
    if isinstance(said, str):
        return plan(benchmark, said)
    try:
        return read_plan(said, OWN_PLAN)
    except PlanMistake as mistake:
        raise WrongPlan(str(mistake)) from mistake


def preset(benchmark: str, name: str = "") -> Preset | None:
    """The recipe's preset of this name; "" is the usual one, None where it has none. Raises UnknownPreset."""
    presets = recipe(benchmark).presets
    found = next((preset for preset in presets if preset.name == name or not name), None)
    if found is None and name:
        raise UnknownPreset(f"{name!r}; known: {', '.join(preset.name for preset in presets) or '-'}")
    return found


def prompts_of(benchmark: str, prompts: str = "", preset_name: str = "") -> str:
    """The set of prompts of a launch: the one it names, else that of its preset. Raises UnknownPreset."""
    chosen = preset(benchmark, preset_name)
    return prompts or (chosen.prompts if chosen else "")


def settings_of(benchmark: str, name: str = "", changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values of a preset ("" is the usual one), with those of a launch in their place; {} where the recipe has no presets.

    A value must be of a kind that the setting has in some preset (null, true or false, a number, a list of as many); whole
    where all of them are, a word one of the presets' or of the recipe's `choices`. Raises UnknownPreset, WrongSetting.
    """
    found = preset(benchmark, name)
    values = dict(found.values) if found else {}
    if unknown := sorted(set(changes or {}) - set(values)):
        raise WrongSetting(f"{', '.join(unknown)}; known: {', '.join(values) or '-'}")
    for key, value in (changes or {}).items():
        all_of_it = [each.values[key] for each in recipe(benchmark).presets if key in each.values]
        known = [*all_of_it, *recipe(benchmark).choices.get(key, ())]
        if not any(_alike(value, each) for each in known):
            raise WrongSetting(
                f"{key}: {json.dumps(value)[:100]}; for example: {', '.join(map(json.dumps, known[:5]))}"
            )
        values[key] = value
    return values


def _alike(value: Any, known: Any) -> bool:
    """Whether a value is of the kind of a known one: words must be the same, numbers finite and not negative."""
    if isinstance(known, bool) or known is None:
        return isinstance(value, type(known))
    if isinstance(known, int | float):
        whole = isinstance(value, int) and not isinstance(value, bool)
        return (whole or (isinstance(value, float) and isinstance(known, float) and isfinite(value))) and value >= 0
    if isinstance(known, list | tuple):
        return isinstance(value, list) and len(value) == len(known) and all(map(_alike, value, known))
    return bool(value == known)


def roles_for(benchmark: str, kinds: Collection[str]) -> tuple[ModelRole, ...]:
    """The recipe's roles that records of these kinds need, optional ones among them."""
    return tuple(role for role in recipe(benchmark).roles if not role.kinds or role.kinds & set(kinds))


def role_name(benchmark: str, name: str) -> str:
    """A model's part in the recipe as readers call it, without what it does; its name where the recipe no longer has it."""
    label = next((role.label for role in recipe(benchmark).roles if role.name == name), name)
    return re.split("[:：]", gettext(label))[0]


def check_names(benchmark: str) -> tuple[str, ...]:
    """The checks that the benchmark's drafts go through before physicians see them, the engine's own first."""
    found = recipe(benchmark)
    own = tuple(check.name for check in found.checks)
    return own if found.compared is None else (IDENTICAL, ALIKE, *own)


def check_label(benchmark: str, name: str) -> str:
    """A check in words, to be translated; its name where the recipe no longer has it."""
    labels = {**_LABELS, **{check.name: check.label for check in recipe(benchmark).checks}}
    return labels.get(name, name)


def case_spec(benchmark: str, sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """The case for one sample version, from the benchmark's `review.case(sample, lineage, version)`."""
    made: CaseSpec = module(benchmark, "review").case(sample, lineage, version)
    return made


def supervision(benchmark: str) -> ModuleType | None:
    """The benchmark's `supervision`: `STAGES` by name and `example(content, stages)`; None where it has none."""
    found = module(benchmark, "recipe")
    if find_spec(f"{found.__package__}.supervision") is None:
        return None
    return module(benchmark, "supervision")


def built_in_terms(benchmark: str) -> tuple[Term, ...]:
    """The benchmark's own `taxonomy.TERMS`."""
    found: tuple[Term, ...] = module(benchmark, "taxonomy").TERMS
    return found


def facet_fields(benchmark: str) -> tuple[str, ...] | None:
    """The fields of a sample's content that `facets` reads: the benchmark's `taxonomy.FACET_FIELDS`. None: it may read any."""
    return getattr(module(benchmark, "taxonomy"), "FACET_FIELDS", None)


def messages(benchmark: str, key: str, task: str, content: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """What a model under test is sent for one sample, by the benchmark's own `protocol.PROTOCOL`.

    None where the benchmark asks more than one question about it, or reads the answers by code: no other tool could do that.
    """
    protocol = module(benchmark, "protocol").PROTOCOL
    if not getattr(protocol, "judge", None):
        return None
    asked = protocol.ask(SimpleNamespace(key=key, task=task, content=content), 0)
    if len(asked) != 1:
        return None
    return [{"role": message.role, "content": message.content} for message in asked[0].messages]


def training(benchmark: str, key: str, task: str, content: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a model is trained on by one sample: its messages, names of its origins, and the split told by its publishers.

    By the benchmark's own `protocol.PROTOCOL`; None where it has nothing to train on.
    """
    protocol = module(benchmark, "protocol").PROTOCOL
    if not getattr(protocol, "example", None):
        return None
    sample = SimpleNamespace(key=key, task=task, content=content)
    together = getattr(protocol, "kept_together", None)
    return {
        "messages": [{"role": each.role, "content": each.content} for each in protocol.example(sample)],
        "origins": list(together(sample)) if together else [],
        "split": str(content.get("split") or ""),
    }


RESPONSE, CRITERION = "@@RESPONSE@@", "@@CRITERION@@"


def judging(benchmark: str, key: str, task: str, content: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """What a judge is sent to decide on one criterion of a sample, with marks in the places of response and criterion.

    None where the benchmark's judge is asked in another way.
    """
    protocol = module(benchmark, "protocol").PROTOCOL
    if not getattr(protocol, "judge", None):
        return None
    sample, rubric = (
        SimpleNamespace(key=key, task=task, content=content),
        SimpleNamespace(key="R1", criterion=CRITERION),
    )
    rubric.traps = ()
    asked = protocol.judge(sample, rubric, "", RESPONSE).messages
    found = [{"role": message.role, "content": message.content} for message in asked]
    text = "".join(message["content"] for message in found)
    return found if text.count(RESPONSE) == text.count(CRITERION) == 1 else None


def points_facet(benchmark: str) -> str:
    """The facet by whose values the benchmark weighs its criteria, some of them below 0; empty: all count alike."""
    rates = getattr(module(benchmark, "protocol").PROTOCOL, "rates", ())
    return next((rate.points for rate in rates if rate.points), "")


def facets(
    benchmark: str, task: str, traps: list[str], terms: tuple[Term, ...], content: Mapping[str, Any]
) -> dict[str, list[str]]:
    """The values under which one rubric is counted, from the benchmark's `taxonomy.facets(task, traps, terms, content)`.

    `content` is the sample's, of which it reads no more than `facet_fields`.
    """
    found: dict[str, list[str]] = module(benchmark, "taxonomy").facets(task, traps, terms, content)
    return found
