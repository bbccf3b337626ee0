"""The actions on results made elsewhere, bundles, comparisons of runs, and power."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from django.core.management.base import CommandError
from django.db import DatabaseError
from pydantic import Field

from evaluation import registry
from evaluation.errors import WrongResults
from evaluation.interchange import bundle, comparing, importing, power, rerunning, rows
from evaluation.interchange.comparing import RunComparison
from evaluation.interchange.programs import files, verify_run
from evaluation.runs import services as runs_services
from evaluation.runs.estimate import estimate_run
from evaluation.runs.kind import RUNS
from generation.jobs.settings import Budget
from generation.management.command_line import (
    LaunchOptions,
    SettingsOptions,
    given_settings,
    paused_exit_code,
    progress_of,
    unconfirmed_estimate,
)
from generation.recipes import registry as recipes
from generation.releases import queries as releases_queries
from review.audit import exports
from review.common.commands import Action, Positional, Shell
from review.common.serializers import serializer_of
from review.rules.permissions import OPERATOR

Folder = Annotated[Path, Shell(positional=True, metavar="DIR")]
RunNumber = Annotated[int, Shell(positional=True, metavar="RUN")]


class CompareRuns(Action):
    """Compare two runs, model by model: rates on shared samples, the paired interval, and the
    samples that flipped.
    """

    first: RunNumber
    second: RunNumber

    def perform(self) -> dict[str, Any]:
        comparison = comparing.compare_runs(RUNS.get(self.first), RUNS.get(self.second), OPERATOR)
        return dict(serializer_of(RunComparison)(comparison).data)


class ExportRun(Action):
    """Write a run as a bundle that verify_run checks and rerun repeats: answers, verdicts,
    settings, numbers, checksums.
    """

    run: Positional[int]
    out: Annotated[Path, Shell(metavar="DIR")]
    with_held_out: bool = Field(False, description="include prompts and texts of held-out samples")

    def perform(self) -> dict[str, Any]:
        run = RUNS.get(self.run)
        try:
            paths = bundle.export_run(run, self.out, with_held_out=self.with_held_out)
        except OSError as error:
            raise CommandError(f"Cannot write to {self.out}: {error.strerror}.") from error
        return {
            "run": run.pk,
            "release": str(run.release),
            "release_sha256": run.release.sha256,
            "folder": str(self.out),
            "files": [path.name for path in paths],
        }


class VerifyRun(Action):
    """Check the bundle of a run: checksums, every number computed again, and for a run of this site
    whether the site wrote the bundle. Lists what differs.
    """

    requires_system_checks = []

    folder: Folder

    def perform(self) -> dict[str, Any]:
        sys.dont_write_bytecode = True  # do not add files to the bundle
        for name in recipes.names():
            registry.protocol(name)  # which says how the benchmark's own scores are counted
        try:
            result = verify_run.check(self.folder)
        except verify_run.READ_ERRORS as error:
            raise CommandError(f"There is no run to check in {self.folder}: {error}") from error
        with suppress(DatabaseError, OSError, ValueError, LookupError, TypeError):  # without a database, or not its own
            what = verify_run.title(files.document(self.folder / "run.json"))
            result["faults"] += exports.faults(self.folder, what)
        return {**result, "failed": len(result["faults"])}


class Rerun(Action):
    """Repeat the run of a bundle with new calls: same release (by checksum), settings, seed and
    endpoints (by name).
    """

    folder: Folder
    options: Annotated[dict[str, Any], LaunchOptions()]

    def perform(self) -> dict[str, Any]:
        repeat = rerunning.repeat_of(self.folder, **given_settings(self.options, Budget))
        if refused := unconfirmed_estimate(self, estimate_run(repeat.settings), self.options):
            return refused
        run = runs_services.launch_run(repeat.settings)
        progress = progress_of(self, RUNS, run, wait=self.options["wait"])
        return {
            "run": run.pk,
            "release": str(run.release),
            "differences": list(repeat.differences),
            "responses": progress.responses.total,
            "responses_done": progress.responses.done,
            "judged": progress.judgments.done,
            "status": run.status,
            "paused": run.paused_detail,
            "failed": paused_exit_code(run),
        }


class ImportResults(Action):
    """Import verdicts made elsewhere (JSON Lines, a log of inspect-ai or lm-eval). Importing again
    adds nothing twice.
    """

    file: Positional[Path]
    study: Annotated[dict[str, Any], SettingsOptions(settings=importing.StudySettings, omit=("models",))]
    model: Annotated[Sequence[str], Shell(metavar="NAME=ENDPOINT")] = Field(
        (),
        description="the endpoint of a model or judge that the file names NAME; =ENDPOINT for rows without a model",
    )

    def perform(self) -> dict[str, Any]:
        given = given_settings(self.study, importing.StudySettings)
        release = releases_queries.release(given.pop("release"))
        try:
            result = importing.import_results(
                rows.read(self.file), **given, release=release, models=importing.model_names(self.model)
            )
        except OSError as error:
            raise WrongResults(str(error)) from error
        run_number, models = None, list[str]()
        if result.run:
            run_number = result.run.pk
            models = list(result.run.tested.order_by("pk").values_list("endpoint__name", flat=True))
        return {
            "run": run_number,
            "release": str(release),
            "models": models,
            "rows": result.rows,
            "added": result.added,
            "known": result.known,
            "refused": result.refused,
            "without_verdict": result.without_verdict,
            "remarks": result.remarks,
            "refusals": [{"where": refusal.where, "reason": refusal.reason} for refusal in result.refusals],
            "failed": int(result.run is None),
        }


class ExpectPower(Action):
    """Expected interval widths and detectable differences of a release, before any model is
    asked.
    """

    release: str = Field(description="NAME, or NAME@VERSION")
    expectations: Annotated[dict[str, Any], SettingsOptions(settings=power.Expectations)]

    def perform(self) -> dict[str, Any]:
        release = releases_queries.release(self.release)
        expected = power.Expectations(**given_settings(self.expectations, power.Expectations))
        cells = power.release_power(release, expected)
        return {"release": str(release), **dict(expected), "cells": [asdict(cell) for cell in cells]}
