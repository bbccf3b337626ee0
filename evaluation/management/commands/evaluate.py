"""evaluate --release NAME --endpoint A --endpoint B [--judge J [--judge K --panel RULE]] [--answers K] [--like RUN] ..."""

from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from evaluation.models import MAX_SEED, Run
from evaluation.runs import queries, services
from evaluation.runs.estimate import estimate_run
from evaluation.runs.kind import RUNS
from evaluation.runs.settings import RunSettings
from evaluation.statistics.intervals import MINIMUM
from generation.endpoints import queries as endpoints_queries
from generation.management.command_line import (
    Step,
    add_launch_options,
    add_like_option,
    complete_launch_values,
    paused_exit_code,
    start_job,
    unconfirmed_estimate,
)
from generation.releases import queries as releases_queries
from review.rules.permissions import OPERATOR, Can, require


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _seed(text: str) -> int:
    if not (text.isdecimal() and int(text[:11]) <= MAX_SEED and len(text) < 11):
        raise ArgumentTypeError(f"{text!r} is not a whole number from 0 to {MAX_SEED}")
    return int(text)


def _repeats(text: str) -> int:
    if not (text.isdecimal() and len(text) < 4 and 1 <= int(text) <= queries.MAX_REPEATS):
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 to {queries.MAX_REPEATS}")
    return int(text)


# The options whose names are those of fields of the settings.
_SAME_NAME = (
    *("panel", "answers", "judgments", "judge_temperature", "judging", "transport", "sampling", "seed", "datasets"),
    *("preset", "metric", "minimum", "prompts"),
)


class Command(Step):
    help = "Evaluate models on a release: a judge decides each rubric, or code reads the answers."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--release", help="NAME, or NAME@VERSION; required without --like")
        parser.add_argument(
            "--endpoint", action="append", help="a model under test; repeat for several; required without --like"
        )
        parser.add_argument(
            "--judge",
            action="append",
            help="required unless code reads the benchmark's answers; repeat for a panel",
        )
        parser.add_argument(
            "--panel",
            choices=Run.Panel.values,
            help="how several votes become one verdict; escalation takes three judges",
        )
        parser.add_argument("--judgments", type=_repeats, metavar="K", help="judgments of each judge")
        parser.add_argument("--answers", type=_repeats, metavar="K", help="answers of each model to a question")
        parser.add_argument(
            "--datasets",
            type=_names,
            action="extend",
            help="data sets of the benchmark, comma-separated; default: all",
        )
        parser.add_argument("--seed", type=_seed, help="seed of the benchmark's random choices; default: 0")
        parser.add_argument(
            "--judge-temperature", type=float, help="default: the published setting, else the judge's own"
        )
        parser.add_argument("--judging", choices=Run.Judging.values)
        parser.add_argument(
            "--transport",
            choices=Run.Transport.values,
            help="batch: use provider batches where an endpoint offers them",
        )
        parser.add_argument(
            "--sampling",
            choices=Run.Sampling.values,
            help="endpoint: use the endpoints' own temperature and token limit, not the benchmark's",
        )
        parser.add_argument("--prompts", metavar="SET", help="a team's own prompt set: NAME, or NAME@VERSION")
        parser.add_argument(
            "--preset", metavar="NAME", help="how the benchmark counts failures, where it has several ways"
        )
        parser.add_argument("--metric", help="primary metric of the analysis plan; default: the preset's or the first")
        parser.add_argument(
            "--compare",
            action="append",
            metavar="MODEL:MODEL",
            help="a planned comparison; default: all pairs",
        )
        parser.add_argument(
            "--outcome",
            action="append",
            metavar="OUTCOME=RULE",
            help="how refused, empty, filtered, cut_off or failed responses are counted: judged, excluded, or a verdict;"
            " and unparsed or judge_failed judgments: excluded, or a verdict",
        )
        parser.add_argument("--minimum", type=int, help=f"samples below which no interval is given; default: {MINIMUM}")
        add_like_option(parser, RUNS)
        add_launch_options(parser)

    def step(self, **options: Any) -> dict[str, Any]:
        require(OPERATOR, Can.MEASURE)
        settings = _settings(options)
        if refused := unconfirmed_estimate(self, estimate_run(settings), options):
            return refused
        run = services.launch_run(settings)
        progress = start_job(self, RUNS, run, wait=options["wait"])
        return {
            "run": run.pk,
            "release": str(run.release),
            "responses": progress.responses.total,
            "responses_done": progress.responses.done,
            "responses_failed": progress.responses.failed,
            "judgments": progress.judgments.total,
            "judged": progress.judgments.done,
            "unjudged": progress.judgments.failed,
            "votes": progress.votes.total,
            "calls": progress.responses.calls,
            "cost": progress.responses.cost,
            "simulated": queries.is_simulated(run),
            "status": run.status,
            "paused": run.paused_detail,
            "failed": queries.count_not_done(run) if options["wait"] else paused_exit_code(run),
        }


def _settings(options: dict[str, Any]) -> RunSettings:
    """The settings of a run from the options.

    Options that are not given are taken from the run named by --like, or else from the defaults.
    """
    judges = options["judge"]
    given = {
        "release": options["release"],
        "endpoints": options["endpoint"],
        "judge": judges[0] if judges else None,
        "further_judges": judges[1:] if judges else None,
        "comparisons": options["compare"],
        "outcomes": options["outcome"],
        **{name: options[name] for name in _SAME_NAME},
    }
    values = complete_launch_values(RUNS, options["like"], given, needed=("release", "endpoints"))
    judge = values.pop("judge", None)
    return RunSettings(
        release=releases_queries.release(values.pop("release")),
        endpoints=[endpoints_queries.endpoint(name) for name in values.pop("endpoints")],
        judge=endpoints_queries.endpoint(judge) if judge else None,
        further_judges=[endpoints_queries.endpoint(name) for name in values.pop("further_judges", ())],
        variants=values.pop("datasets", ()),
        budget_money=options["budget"],
        budget_calls=options["budget_calls"],
        fresh=options["fresh"],
        first_only=options["one_first"],
        **values,
    )
