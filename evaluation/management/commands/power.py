"""power --release NAME --models N [--rate R] [--correlation C] [--difference D]"""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from evaluation.interchange import power
from generation.management.command_line import add_settings, given_settings
from generation.releases import queries as releases_queries
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "Expected interval widths and detectable differences of a release, before any model is asked."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--release", required=True, help="NAME, or NAME@VERSION")
        add_settings(parser, power.Expectations)

    def step(self, **options: Any) -> dict[str, Any]:
        release = releases_queries.release(options["release"])
        expected = power.Expectations(**given_settings(options, power.Expectations))
        cells = power.release_power(release, expected)
        return {"release": str(release), **dict(expected), "cells": [asdict(cell) for cell in cells]}
