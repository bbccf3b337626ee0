"""Starts the validation of a run's judge by physicians."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from pydantic import Field

from evaluation import errors, registry
from evaluation.judges import queries
from evaluation.judges.content import CaseContent, case_spec
from evaluation.judges.draw import DrawnResponse, draw, parse_amount
from evaluation.judges.numbers.criteria import JudgedCriteria
from evaluation.models import MAX_SEED, Response, Run, Validation, ValidationItem
from evaluation.runs import queries as runs_queries
from evaluation.runs.kind import RUNS
from evaluation.runs.rows import chains
from generation.jobs import life_cycle
from generation.jobs.settings import Settings
from generation.llm.types import Message
from generation.models import ReleasedRubric
from review.cases.services import open_case
from review.forms import queries as forms_queries
from review.models import Case, User
from review.rules.blocks import Block
from review.rules.case_spec import CaseSpec

MAX_ITEMS = 5000


class ValidationSettings(Settings):
    """How many responses physicians judge, and the seed of the draw."""

    n: str = Field(
        "",
        title=_("Responses"),
        description=_(
            "A number, or a share of each stratum such as 10%. Drawn by model, data set, and whether the judge found a failure."
        ),
        max_length=10,
    )
    seed: int = Field(0, title=_("Seed"), description=_("The same seed draws the same responses."), ge=0, le=MAX_SEED)


def start_validation(run_id: int, *, n: int | str = "", seed: int = 0, actor: User | None = None) -> Validation:
    """Draw responses of a finished run for physicians to judge, and open a case for each.

    The draw is stratified by model, data set and verdict.
    `n`: the number of responses, or '10%' of each stratum; '' for the benchmark's default.
    Two physicians decide on the criteria of each answer, and a third if they differ. None of them
    sees the model, the judge or the verdict.
    Each model is drawn once. A later call draws only from models added since, with the seed of the
    first draw; docs/statistics.md explains why more responses of the others cannot be drawn.
    Raises UnknownRun, RunNotFinished, NothingToValidate, AlreadyValidated, WrongAmount, and
    SampleTooSmall if `n` is smaller than the number of strata or too large.
    """
    run = Run.objects.select_related("release").get(pk=RUNS.get(run_id).pk)
    protocol = registry.protocol(run.release.benchmark)
    if run.status != Run.Status.FINISHED:
        raise errors.RunNotFinished
    if protocol.judge is None:
        raise errors.NothingToValidate
    try:
        amount = parse_amount(str(n) or protocol.validation_sample)
    except ValueError:
        raise errors.WrongAmount(str(n)[:40]) from None
    existing = Validation.objects.filter(run=run).first()
    judged = queries.criteria_of(run)
    population = _population(run, judged)
    if not population:
        raise errors.NothingToValidate
    not_drawn: list[str] = []
    if existing:
        seed = existing.seed
        not_drawn = queries.models_not_drawn(existing)
        population = [(pk, stratum) for pk, stratum in population if stratum[0] in not_drawn]
        if not population:
            raise errors.AlreadyValidated
    sizes = Counter[Hashable]([stratum for _pk, stratum in population])
    if amount.number is None:
        size = sum(amount.per_stratum(sizes).values())
    else:
        size = amount.number
    if not len(sizes) <= size <= MAX_ITEMS:
        bounds = {"least": len(sizes), "most": MAX_ITEMS}
        raise errors.SampleTooSmall(gettext("Choose a number from %(least)s to %(most)s.") % bounds)
    drawn = draw(population, amount, seed)
    specs = _compose_cases(run, judged, drawn)
    with transaction.atomic():  # only now, as a benchmark's code has composed the texts
        locked = life_cycle.lock_job(run.pk)
        if (locked.status, locked.finished_at) != (run.status, run.finished_at):
            raise errors.RunNotFinished
        validation = Validation.objects.filter(run=run).first()
        if validation != existing or (validation and queries.models_not_drawn(validation) != not_drawn):
            raise errors.AlreadyValidated
        validation = validation or Validation.objects.create(
            run=run, seed=seed, created_by=actor, created_at=timezone.now()
        )
        _open_cases(validation, drawn, specs, actor)
    return validation


def _population(run: Run, judged: JudgedCriteria) -> list[tuple[int, tuple[str, str, str, bool]]]:
    """Each response with a criterion that physicians can check, and its stratum.

    A stratum is a model, task and variant, and whether the judge failed any criterion.
    """
    datasets = {data.name: data for data in runs_queries.data_sets_of(run)}
    failing = judged.frame.has(judged.protocol.failing_verdicts).any().alias("failed")
    checkable = judged.frame.rows[judged.rows]
    responses = checkable.group_by("response", "model", "dataset").agg(failing).sort("response")
    population = []
    for pk, model, name, has_failed in responses.iter_rows():
        population.append((pk, (model, datasets[name].task, datasets[name].variant, has_failed)))
    return population


def _compose_cases(run: Run, judged: JudgedCriteria, drawn: Sequence[DrawnResponse]) -> list[CaseSpec]:
    """The cases of drawn responses, in their order, without a lineage."""
    pks, protocol = [item.pk for item in drawn], judged.protocol
    responses = Response.objects.select_related("sample__version__case").in_bulk(pks)
    criteria: dict[int, list[tuple[int, str]]] = defaultdict(list)
    keys = [(pk, rubric) for pk, rubric in judged.keys(judged.rows) if pk in responses]
    rubrics_of = ReleasedRubric.objects.in_bulk({rubric for _pk, rubric in keys})
    for pk, rubric in sorted(keys):
        criteria[pk].append((rubric, rubrics_of[rubric].criterion))
    asks = chains.chained_questions(protocol, list(responses.values()), run.seed)
    texts = chains.judged_texts(protocol, list(responses.values()))
    simulated = runs_queries.is_simulated(run)
    senior_decides = forms_queries.senior_decides(run.release.benchmark)
    specs = []
    for pk in pks:
        response = responses[pk]
        version = response.sample.version
        page: Sequence[Block] = ()
        if protocol.judged_page is not None:
            rows = [rubrics_of[rubric] for rubric, _text in criteria[pk]]
            decided = [runs_queries.rubric_value(row) for row in rows]
            sample = runs_queries.sample_value(response.sample)
            page = protocol.judged_page(sample, decided, response.variant, texts[pk])
        asked: Sequence[Message] = ()
        if ask := asks[pk]:
            asked = ask.messages
        content = CaseContent(
            benchmark=run.release.benchmark,
            task=response.sample.task,
            title=version.title,
            language=runs_queries.language_of(response.sample),
            specialty=version.case.specialty,
            asked=asked,
            text=texts[pk],
            criteria=criteria[pk],
            simulated=simulated,
            about=runs_queries.question_text(response.sample),
            judged_page=page,
            senior_decides=senior_decides,
        )
        specs.append(case_spec(content, ""))
    return specs


def _open_cases(
    validation: Validation, drawn: Sequence[DrawnResponse], specs: Sequence[CaseSpec], actor: User | None
) -> None:
    items = []
    first = validation.items.count() + 1
    for number, (item, spec) in enumerate(zip(drawn, specs, strict=True), first):
        spec = replace(spec, lineage=f"validation:{validation.pk}:{number}")
        case = open_case(spec, actor=actor, kind=Case.Kind.VALIDATION)
        items.append(ValidationItem(validation=validation, response_id=item.pk, case=case, weight=item.weight))
    ValidationItem.objects.bulk_create(items)
