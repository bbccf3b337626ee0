"""What makes the numbers of two runs comparable, as one value."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from django.utils.translation import gettext_noop as _

from evaluation.models import Run
from evaluation.protocol import Protocol
from evaluation.runs import plan, queries
from evaluation.runs.plan import plan_of
from generation.jobs.queries import ModelAsked


@dataclass(frozen=True, slots=True)
class JudgingDifference:
    """A part of how a run was made and judged that differs from other runs. `usual`: theirs."""

    name: str
    label: str
    value: str
    usual: str


@dataclass(frozen=True, slots=True)
class Comparability:
    """How a run was made, judged and counted, as text by part.

    Two runs are comparable if all parts are equal; where they are not, `differences` has the words.

    Attributes:
        release: its name, version and the first digits of its checksum.
        datasets: those that were asked.
        judges: each with its model and its settings at launch.
        rules: those that differ from the benchmark's.
        prompts: those that models and judges got, and the team's set.
        errata: how many samples of the release are withdrawn, as of when the value is read.
    """

    release: str
    datasets: str
    judges: str
    panel: str
    judging: str
    temperature: str
    rules: str
    prompts: str
    sampling: str
    answers: str
    errata: str

    def differences(self, usual: "Comparability") -> Iterator[JudgingDifference]:
        """The parts in which it differs from `usual`."""
        for part in fields(self):
            value, other = getattr(self, part.name), getattr(usual, part.name)
            if value != other:
                yield JudgingDifference(part.name, LABELS[part.name], value, other)


LABELS = {
    "release": _("Release"),
    "datasets": _("Data sets"),
    "judges": _("Judges"),
    "panel": _("Panel"),
    "judging": _("Judging"),
    "temperature": _("Judge temperature"),
    "rules": _("Counting rules"),
    "prompts": _("Prompts"),
    "sampling": _("Sampling"),
    "answers": _("Answers per question"),
    "errata": _("Withdrawn samples"),
}


def comparability(run: Run, protocol: Protocol, withdrawn: int) -> Comparability:
    """How a run was made, judged and counted. `withdrawn`: samples of its release."""
    asked = queries.models_asked(run)
    judge_names = [judge.name for judge in queries.judges_of(run)]
    judges: list[str] = []
    prompts_asked: set[str] = set()
    for model in asked:
        prompts_asked.update(model.prompts)
        if model.endpoint in judge_names:
            judges.append(_with_settings(model))
    prompts = sorted(prompts_asked)
    if run.prompts:
        prompts.append(run.prompts)
    panel = judging = temperature = ""
    if run.panel:
        panel = f"{run.panel} × {run.judgments_each}"
    if run.judge_id:
        judging = run.judging
    if run.judge_temperature is not None:
        temperature = f"{run.judge_temperature:g}"
    return Comparability(
        release=f"{run.release} ({run.release.sha256[:12]}…)",
        datasets=", ".join([dataset.name for dataset in queries.data_sets_of(run)]),
        judges=", ".join(judges),
        panel=panel,
        judging=judging,
        temperature=temperature,
        rules=", ".join(_own_rules(run, protocol)),
        prompts=", ".join(prompts),
        sampling=run.sampling,
        answers=str(run.answers_each),
        errata=str(withdrawn),
    )


def _own_rules(run: Run, protocol: Protocol) -> list[str]:
    """The counting rules of a run that differ from the benchmark's: 'refused: excluded'."""
    usual = plan.default_rules(protocol)
    outcomes = plan_of(run, protocol, ()).outcomes
    own = []
    for name, rule in sorted(outcomes.items()):
        if usual.get(name) != rule:
            own.append(f"{name}: {rule}")
    return own


def _with_settings(judge: ModelAsked) -> str:
    """'gpt-judge (gpt-5, temperature 0)'."""
    settings = [f"{name.replace('_', ' ')} {value}" for name, value in sorted(judge.settings.items())]
    return f"{judge.endpoint} ({', '.join([judge.model, *settings])})"
