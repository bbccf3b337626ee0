"""What each way of judging costs a run, and how far a judge agreed with physicians in it."""

from dataclasses import dataclass
from decimal import Decimal

from evaluation import registry
from evaluation.judges.queries import validation_report
from evaluation.models import Run, Validation
from evaluation.runs.estimate import estimate_run
from evaluation.runs.settings import RunSettings


@dataclass(frozen=True, slots=True)
class JudgingCost:
    """What the judges of a run cost in one way of judging (`Run.Judging`).

    `chosen`: it is the way of the settings. `validated`: the newest run of this benchmark that was
    judged so by the same judge and whose judge physicians have checked; None if there is none.
    `kappas`: of that judge against physicians, on each model's answers, as far as there is one.
    """

    way: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost: Decimal
    chosen: bool
    validated: int | None
    kappas: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        return str(Run.Judging(self.way).label)


def judging_costs(settings: RunSettings) -> list[JudgingCost]:
    """Each way of judging that the benchmark allows; empty if there is no choice."""
    if not settings.judges or registry.protocol(settings.release.benchmark).sample_judging is None:
        return []
    costs = []
    for way in Run.Judging.values:
        estimate = estimate_run(settings.model_copy(update={"judging": way}))
        calls = tokens_in = tokens_out = 0
        cost = Decimal(0)
        for line in estimate.lines:
            if line.role == "judge":
                calls += line.calls
                tokens_in += line.tokens_in
                tokens_out += line.tokens_out
                cost += line.cost
        validations = Validation.objects.filter(
            run__release__benchmark=settings.release.benchmark, run__judging=way, run__judge=settings.judges[0]
        )
        newest = validations.order_by("-run").select_related("run__release").first()
        validated: int | None = None
        kappas: tuple[float, ...] = ()
        if newest is not None:
            validated, kappas = newest.run_id, _kappas(newest.run)
        costs.append(
            JudgingCost(
                way=way,
                calls=calls,
                tokens_in=tokens_in,
                tokens_out=tokens_out,
                cost=cost,
                chosen=way == settings.judging,
                validated=validated,
                kappas=kappas,
            )
        )
    return costs


def _kappas(run: Run) -> tuple[float, ...]:
    report = validation_report(run)
    if report is None:
        return ()
    kappas = []
    for model in report.models:
        if model.judge.kappa.value is not None:
            kappas.append(model.judge.kappa.value)
    return tuple(kappas)
