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
        lines = [line for line in estimate.lines if line.role == "judge"]
        validations = Validation.objects.filter(
            run__release__benchmark=settings.release.benchmark, run__judging=way, run__judge=settings.judges[0]
        )
        newest = validations.order_by("-run").select_related("run__release").first()
        validated: int | None = None
        kappas: tuple[float, ...] = ()
        if newest is not None:
            validated, kappas = newest.run_id, _kappas(newest.run)
        cost = sum((line.cost for line in lines), Decimal(0))
        costs.append(
            JudgingCost(
                way=way,
                calls=sum(line.calls for line in lines),
                tokens_in=sum(line.tokens_in for line in lines),
                tokens_out=sum(line.tokens_out for line in lines),
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
    found = [model.judge.kappa.value for model in report.models]
    return tuple(value for value in found if value is not None)
