"""Puts a share of a run's responses before physicians, to measure its judge."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from django.db import transaction
from django.db.models import Count, Q
from django.utils import timezone

from evaluation import errors, registry
from evaluation.judges import queries
from evaluation.judges.content import Answered, case_spec
from evaluation.judges.draw import Drawn, draw, read_amount
from evaluation.models import Judgment, Response, Run, Validation, ValidationItem
from evaluation.protocol import Protocol
from evaluation.runs import queries as runs_queries
from evaluation.runs.kind import RUNS
from evaluation.runs.rows import chains
from generation.models.work import Work
from review.assignments.services import open_case
from review.models import Case, User

MOST_ITEMS = 5000
Status = Work.Status


@transaction.atomic
def start_validation(run_id: int, *, n: int | str = "", seed: int = 0, actor: User | None = None) -> Validation:
    """Draw `n` responses of a finished run by model, data set and verdict, and open a case for each. '10%': a share of each
    stratum; '': what the benchmark draws.

    Two physicians decide on the criteria of each answer, a third where they differ; nobody is shown the model, the judge or
    the verdict. Drawn once of each model: later of those added since, with the first draw's seed. Why no more of the others:
    docs/statistics.md. Raises UnknownRun; RunNotFinished; NothingToValidate; AlreadyValidated; WrongAmount; SampleTooSmall
    where that is less than there are strata, or too large.
    """
    run = Run.objects.select_for_update(of=("self",), no_key=True).select_related("release").get(pk=RUNS.get(run_id).pk)
    protocol = registry.protocol(run.release.benchmark)
    if run.status != Run.Status.FINISHED:
        raise errors.RunNotFinished
    if protocol.judge is None:
        raise errors.NothingToValidate
    try:
        amount = read_amount(str(n) or protocol.validated)
    except ValueError:
        raise errors.WrongAmount(str(n)[:40]) from None
    found = Validation.objects.filter(run=run).first()
    population = _population(run, protocol)
    if not population:
        raise errors.NothingToValidate
    if found is not None:
        left = queries.models_not_drawn(found)
        population = [each for each in population if each[1][0] in left]
        if not population:
            raise errors.AlreadyValidated
    sizes = Counter[Hashable](stratum for _pk, stratum in population)
    wanted = sum(amount.of(sizes).values()) if amount.number is None else amount.number
    if not len(sizes) <= wanted <= MOST_ITEMS:
        raise errors.SampleTooSmall(f"{len(sizes)} … {MOST_ITEMS}")
    if found is None:
        found = Validation.objects.create(run=run, seed=seed, created_by=actor, created_at=timezone.now())
    _open_cases(found, run, protocol, draw(population, amount, found.seed), actor)
    return found


def _population(run: Run, protocol: Protocol) -> list[tuple[int, tuple[str, str, str, bool]]]:
    """Each response of which a criterion was judged, with its stratum: model, task, variant, whether one failed."""
    judged = Judgment.objects.filter(run=run, status=Status.DONE, verdict__in=protocol.judge_verdicts).order_by()
    rows = judged.values_list("response", "response__endpoint__name", "rubric__sample__task", "response__variant")
    failed = Count("pk", filter=Q(verdict__in=protocol.failing_verdicts))
    return [(pk, (name, task, variant, bool(n))) for pk, name, task, variant, n in rows.annotate(failed=failed)]


def _open_cases(
    validation: Validation, run: Run, protocol: Protocol, drawn: Sequence[Drawn], actor: User | None
) -> None:
    pks = [each.pk for each in drawn]
    about = Response.objects.select_related("sample__version__case").in_bulk(pks)
    criteria: dict[int, list[tuple[int, str]]] = defaultdict(list)
    judged = Judgment.objects.filter(response__in=pks, status=Status.DONE, verdict__in=protocol.judge_verdicts)
    for pk, rubric, text in judged.order_by("rubric").values_list("response", "rubric", "rubric__criterion"):
        criteria[pk].append((rubric, text))
    asks = chains.questions_asked(protocol, list(about.values()), run.seed)
    texts = chains.judged_texts(protocol, list(about.values()))
    simulated = runs_queries.is_simulated(run)
    items = []
    for at, each in enumerate(drawn, validation.items.count() + 1):
        response = about[each.pk]
        version = response.sample.version
        answered = Answered(
            benchmark=run.release.benchmark,
            task=response.sample.task,
            title=version.title,
            language=runs_queries.language_of(response.sample),
            specialty=version.case.specialty,
            asked=ask.messages if (ask := asks[each.pk]) else (),
            text=texts[each.pk],
            criteria=criteria[each.pk],
            simulated=simulated,
            about=runs_queries.question_text(response.sample),
        )
        spec = case_spec(answered, f"validation:{validation.pk}:{at}")
        case = open_case(spec, actor=actor, kind=Case.Kind.VALIDATION)
        items.append(ValidationItem(validation=validation, response=response, case=case, weight=each.weight))
    ValidationItem.objects.bulk_create(items)
