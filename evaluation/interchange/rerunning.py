"""Repeats a run from its bundle, with the same release, settings, seed and endpoints."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db.models import Q

from evaluation import errors
from evaluation.interchange.bundle import READABLE_FORMATS
from evaluation.models import Run
from evaluation.numbers.rules import UNDECIDED, failure_rule
from evaluation.runs.settings import RunSettings
from evaluation.statistics.intervals import MINIMUM
from generation.endpoints import queries as endpoints_queries
from generation.errors import UnknownPrompts
from generation.models import LAUNCH_SETTINGS, Endpoint, Release
from generation.prompts import queries as prompts_queries

# For runs without a frozen plan.
REPEATED = ("answers", "judgments", "judge_temperature", "judging", "seed", "datasets", "transport", "sampling")
DEFAULT_PLAN: Mapping[str, Any] = {"preset": "", "metric": "", "comparisons": [], "outcomes": {}, "minimum": MINIMUM}


@dataclass(frozen=True, slots=True)
class Repeat:
    """The repetition of a run from a bundle.

    `differences`: settings of endpoints here that differ from those in the bundle.
    """

    settings: RunSettings
    differences: tuple[str, ...]


def repeat_of(folder: Path, **budget: Any) -> Repeat:
    """The settings of the run in a bundle, with the values of a `Budget`.

    Raises WrongBundle, ImportedRun, ReleaseMissing, UnknownEndpoint.
    """
    try:
        about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        if about["format"] not in READABLE_FORMATS:
            raise errors.WrongBundle(f"format {about['format']}")
        if about["origin"] == Run.Origin.IMPORTED:
            raise errors.ImportedRun
        names, settings, release = about["endpoints"], about["settings"], _release(about["release"])
        plan = DEFAULT_PLAN
        if about["plan"]["frozen"]:
            plan = about["plan"]
        rules = {**plan["outcomes"], UNDECIDED: failure_rule(plan["outcomes"], UNDECIDED)}
        judge = None
        if about["judge"]:
            judge = endpoints_queries.endpoint(about["judge"])
        same = {name: settings[name] for name in REPEATED}
        repeated = RunSettings(
            release=release,
            endpoints=list(map(endpoints_queries.endpoint, names)),
            judge=judge,
            further_judges=list(map(endpoints_queries.endpoint, about["further_judges"])),
            panel=about["panel"] or Run.Panel.MAJORITY,
            **same,
            prompts=_prompts(release, settings),
            preset=plan.get("preset", ""),  # bundles older than presets have none
            metric=plan["metric"],
            comparisons=[":".join(pair) for pair in plan["comparisons"]],
            outcomes=[f"{outcome}={rule}" for outcome, rule in rules.items()],
            minimum=plan["minimum"],
            primary_dataset=plan.get("dataset", ""),  # as above
            **budget,
            fresh=True,
        )
        models = {model["endpoint"]: model for model in about["models"]}
        differences: list[str] = []
        for endpoint in repeated.asked:
            differences += _differences(endpoint, models[endpoint.name])
        return Repeat(repeated, tuple(differences))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.WrongBundle(f"{folder}: {type(error).__name__} {error}") from error


def _prompts(release: Release, settings: Mapping[str, Any]) -> str:
    """The stored prompt set with the bundle's digest. Raises UnknownPrompts."""
    digest = settings.get("prompts_sha256")  # bundles older than prompt sets have none
    if not digest:
        return ""
    row = prompts_queries.stored_sets(release.benchmark).filter(digest=digest).first()
    if row is None:
        raise UnknownPrompts(f"{settings['prompts']}, SHA-256 {digest}")
    return str(row)


def _release(about: Mapping[str, Any]) -> Release:
    same = Q(sha256=about["sha256"], held_out_sha256=about["held_out_sha256"], benchmark=about["benchmark"])
    release = Release.objects.filter(same).order_by("-pk").first()
    if release is None:
        raise errors.ReleaseMissing(f"{about['name']} v{about['version']}, {about['sha256']}")
    return release


def _differences(endpoint: Endpoint, then: Mapping[str, Any]) -> list[str]:
    differences = []
    if endpoint.model != then["model"]:
        differences.append(f"{endpoint.name}: model {endpoint.model}, then {then['model']}")
    for name in LAUNCH_SETTINGS:
        now, before = getattr(endpoint, name), then["settings"].get(name)
        stated = now
        if now is False or now in (None, "", {}):
            stated = None  # a bundle leaves out what is not set
        if stated != before:
            differences.append(f"{endpoint.name}: {name} {now}, then {before}")
    return differences
