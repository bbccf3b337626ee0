"""power --release NAME --models N [--rate R] [--correlation C] [--difference D]"""

from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from typing import Any

from evaluation.interchange import power
from generation.management.command_line import StepCommand
from generation.releases import queries as releases_queries
from review.rules.permissions import OPERATOR, Can, require


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"{text!r} is not a share from 0 to 1")
    return value


def _models(text: str) -> int:
    if not (text.isdecimal() and len(text) < 5 and 1 <= int(text) <= power.MAX_MODELS):
        raise ArgumentTypeError(f"{text!r} is not a number of models from 1 to {power.MAX_MODELS}")
    return int(text)


class Command(StepCommand):
    help = "Expected interval widths and detectable differences of a release, before any model is asked."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--release", required=True, help="NAME, or NAME@VERSION")
        parser.add_argument("--models", required=True, type=_models, metavar="N", help="how many models are compared")
        parser.add_argument("--rate", type=_share, default=power.RATE, help="the expected rate; default: %(default)s")
        parser.add_argument(
            "--correlation", type=_share, default=power.CORRELATION,
            help="correlation between the criteria of one source record; default: %(default)s",
        )  # fmt: skip
        parser.add_argument(
            "--difference", type=_share, default=power.DIFFERENCE,
            help="the difference for which to compute the power; default: %(default)s",
        )  # fmt: skip

    def step(self, **options: Any) -> dict[str, Any]:
        require(OPERATOR, Can.READ_RESULTS)
        release = releases_queries.release(options["release"])
        expectations = {name: options[name] for name in ("rate", "correlation", "difference")}
        cells = power.release_power(release, options["models"], **expectations)
        return {
            "release": str(release),
            "models": options["models"],
            **expectations,
            "cells": [asdict(cell) for cell in cells],
        }
