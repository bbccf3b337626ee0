"""Shows a prompt as it would be sent, and sends it once, outside any batch or run."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from pydantic import BaseModel

from evaluation import errors, registry
from evaluation.runs import queries
from generation.batches import queries as batches_queries
from generation.errors import NotCallable
from generation.jobs.settings import setting, settings_class
from generation.llm.errors import BrokenReply, in_words
from generation.llm.request_body import build_body, with_schema
from generation.llm.types import Reply, Request
from generation.models import Draft, Endpoint, Release, ReleasedSample, SourceRecord
from generation.prompts import queries as prompts_queries
from generation.recipes import registry as recipes
from generation.recipes import rehearsal
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import Step
from generation.releases import queries as releases_queries
from generation.samples import queries as samples_queries
from generation.sources import queries as sources_queries
from generation.sources.other_values import SourceValues
from generation.trials.findings import findings
from generation.trials.sending import Sent, send_once
from review.models import User
from review.rules.shown_values import shown
from review.rules.text import whole_number

STEP, MODEL, JUDGE = "step", "model", "judge"
SECONDS = 60.0  # the longest wait, as a person is waiting for the page
Parsed = dict[str, Any]
REPLY = (
    "text reasoning finish_reason model tokens_in=usage.tokens_in tokens_out=usage.tokens_out "
    "tokens_reasoning=usage.tokens_reasoning"
)


@settings_class
class PlaygroundSettings:
    """What to try: a step of a recipe, a model under test or a judge."""

    what: str = setting(
        _("What to try"),
        "`step:BENCHMARK:NAME`, `model:RELEASE@VERSION:DATA SET` or `judge:RELEASE@VERSION`.",
        most=300,
    )
    on: str = setting(
        _("Record or sample"),
        _("The number of a record, draft:NUMBER, or the key of a sample. Leave empty for the first that fits."),
        most=300,
        default="",
    )
    prompts: str = setting(
        _("Prompts"), _("A prompt set, released or your own: NAME, or NAME@VERSION."), most=64, default=""
    )
    answer: str = setting(_("Answer to judge"), most=20_000, rows=3, default="")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request as it would be sent. `read`: what the benchmark makes of a reply."""

    label: str
    on: str
    role: str
    request: Request
    shape: type[BaseModel] | None
    read: Callable[[Reply, BaseModel | None], Parsed]

    def body(self, endpoint: Endpoint) -> dict[str, Any]:
        """The body of the HTTP request to an endpoint, with digests for images."""
        request = self.request if self.shape is None else with_schema(self.request, self.shape)
        return build_body(endpoint.settings, request)


@dataclass(frozen=True, slots=True)
class TriedReply:
    """A reply and what became of it.

    `parsed`: what the benchmark read in it; `error`: why it could not.
    """

    text: str
    reasoning: str
    finish_reason: str
    model: str
    parsed: Parsed
    error: str
    findings: list[dict[str, str]]
    tokens_in: int
    tokens_out: int
    tokens_reasoning: int
    seconds: float
    cost: str
    calls: list[int]


def choices() -> list[tuple[str, str]]:
    """What can be tried: (what, label), steps first."""
    found: list[tuple[str, str]] = []
    for benchmark in recipes.names():
        steps = [step.name for step in recipes.recipe(benchmark).steps if isinstance(step, Step)]
        found += [(f"{STEP}:{benchmark}:{name}", f"{gettext(recipes.label(benchmark))}: {name}") for name in steps]
    for release in Release.objects.order_by("-pk")[:20]:
        name = release.reference
        found += [
            (f"{MODEL}:{name}:{dataset.name}", f"{release}: {gettext(dataset.label)}")
            for dataset in queries.data_sets_in(release)
        ]
        if registry.protocol(release.benchmark).judge is not None:
            found.append((f"{JUDGE}:{name}", f"{release}: {gettext(queries.ROLES[queries.JUDGE])}"))
    return found


def prepare(asked: PlaygroundSettings) -> Prepared:
    """The request as it would be sent. Raises NothingToTry, UnknownPrompts, UnknownRelease."""
    kind, _, rest = asked.what.partition(":")
    first, _, second = rest.partition(":")
    try:
        if kind == STEP:
            return _of_step(asked, first, second)
        if kind == MODEL:
            return _of_model(asked, first, second)
        if kind == JUDGE:
            return _of_judge(asked, first)
    except rehearsal.NoQuestion as reason:
        raise errors.NothingToTry(str(reason)) from None
    raise errors.NothingToTry(f"{asked.what!r}; write step:BENCHMARK:NAME, model:RELEASE:DATA SET or judge:RELEASE.")


def try_out(prepared: Prepared, endpoint: Endpoint, *, actor: User | None = None) -> TriedReply:
    """Send a prepared request once: priced and in the ledger, in no result. Raises NotCallable."""
    if not endpoint.is_usable:
        raise NotCallable(endpoint.name)
    subject = f"playground:{actor.pk if actor else 0}"
    sent = send_once(endpoint, prepared.request, prepared.shape, subject=subject, seconds=SECONDS)
    parsed, error = _read(prepared, sent)
    reply = sent.reply or Reply("")
    return TriedReply(
        **shown(reply, REPLY),
        parsed=parsed,
        error=error,
        findings=[shown(each, "code words detail") for each in findings(sent)],
        seconds=round(sent.seconds, 2),
        cost=str(sent.cost),
        calls=[call.pk for call in sent.calls],
    )


def _read(prepared: Prepared, sent: Sent) -> tuple[Parsed, str]:
    if sent.error is not None:
        last = sent.last
        return {}, in_words(last.error, last.detail) if last and last.error else str(sent.error)
    try:
        return prepared.read(sent.reply or Reply(""), sent.value), ""
    except BrokenReply as refusal:
        return {}, str(refusal)


def _of_step(asked: PlaygroundSettings, benchmark: str, name: str) -> Prepared:
    recipe = recipes.recipe(benchmark)
    step = next((step for step in recipe.steps if isinstance(step, Step) and step.name == name), None)
    if step is None:
        raise errors.NothingToTry(f"{name!r} is no step of {benchmark}.")
    on, draft = _draft(asked, benchmark, list(recipe.kinds))
    if asked.prompts:
        draft = replace(draft, prompts=prompts_queries.full_name(benchmark, asked.prompts))
    with _prompts(benchmark, draft.prompts):
        question = rehearsal.first_question(step, draft, {role.name: "the-model" for role in recipe.roles})

    def read(reply: Reply, value: BaseModel | None) -> Parsed:
        if question.check is not None:
            question.check(reply.text if value is None else value)
        return {} if value is None else value.model_dump(mode="json")

    label = f"{gettext(recipes.label(benchmark))}: {name}"
    return Prepared(label, on, question.role, question.request, question.shape, read)


def _prompts(benchmark: str, name: str) -> AbstractContextManager[None]:
    return prompts_queries.using(benchmark, prompts_queries.stored_set(benchmark, name))


def _draft(asked: PlaygroundSettings, benchmark: str, kinds: list[str]) -> tuple[str, DraftValue]:
    """The draft of a number, or a new one of a record."""
    kind, _, number = asked.on.rpartition(":")
    if kind == "draft":
        row = Draft.objects.filter(pk=whole_number(number) or 0).first()
        if row is None:
            raise errors.NothingToTry(f"There is no draft {number}.")
        return asked.on, batches_queries.draft_value(row)
    records = SourceRecord.objects.filter(content__kind__in=kinds, latest=True).defer("private").order_by("pk")
    if asked.on:
        records = records.filter(pk=whole_number(asked.on) or 0)
    record = records.first()
    if record is None:
        raise errors.NothingToTry("No record fits. Give its number, or import a source that the recipe can use.")
    joined = sources_queries.partner_contents([record])
    value = DraftValue(
        record=sources_queries.record_value(record, joined[record.pk]),
        terms=samples_queries.terms(benchmark),
        prompts=recipes.resolve_prompt_set(benchmark),
        checks=recipes.check_names(benchmark),
        settings=recipes.resolve_settings(benchmark),
        other_values=SourceValues(record),
    )
    return str(record.pk), value


def _sample(asked: PlaygroundSettings, release: Release, tasks: set[str]) -> ReleasedSample:
    samples = ReleasedSample.objects.filter(release=release, task__in=tasks).order_by("position")
    sample = (samples.filter(key=asked.on) if asked.on else samples).first()
    if sample is None:
        raise errors.NothingToTry(f"{release} has no such sample.")
    return sample


def _of_model(asked: PlaygroundSettings, release_name: str, dataset_name: str) -> Prepared:
    release = releases_queries.release(release_name)
    protocol = registry.protocol(release.benchmark)
    datasets = {dataset.name: dataset for dataset in queries.data_sets_in(release)}
    dataset = datasets.get(dataset_name) if dataset_name else next(iter(datasets.values()), None)
    if dataset is None:
        raise errors.NothingToTry(f"Data sets of {release}: {', '.join(datasets)}.")
    sample = _sample(asked, release, {dataset.task})
    with _prompts(release.benchmark, asked.prompts):
        ask = queries.question(protocol, sample, 0, dataset.variant, "")

    def read(reply: Reply, _value: BaseModel | None) -> Parsed:
        if protocol.read is None:
            return {}
        value, about, parsed = queries.sample_value(sample), dict(ask.about), {}
        for rubric in queries.rubric_values(sample):
            decision = protocol.read(value, rubric, ask.variant, about, reply.text)
            parsed[rubric.key] = decision.verdict if decision else "left to the judge"
        return parsed

    return Prepared(f"{release}: {dataset.label}", sample.key, queries.TARGET, ask.request, None, read)


def _of_judge(asked: PlaygroundSettings, release_name: str) -> Prepared:
    release = releases_queries.release(release_name)
    protocol = registry.protocol(release.benchmark)
    if protocol.judge is None:
        raise errors.NoJudgeNeeded
    sample = _sample(asked, release, {dataset.task for dataset in queries.data_sets_in(release)})
    judged = [(rubric, protocol.judging(rubric.key)) for rubric in queries.rubric_values(sample)]
    rubric, judging = next(((rubric, each) for rubric, each in judged if each is not None), (None, None))
    if rubric is None or judging is None:
        raise errors.NothingToTry(f"Nothing in {sample.key} is judged by a model.")
    variant = next(iter(sorted(judging.variants)), "")
    with _prompts(release.benchmark, asked.prompts):
        request = judging.judge(queries.sample_value(sample), rubric, variant, asked.answer or "(no answer)")
    if request.temperature is None:  # as a run that sets none
        request = replace(request, temperature=protocol.judge_temperature)
    decide = judging.decide

    def read(_reply: Reply, value: BaseModel | None) -> Parsed:
        decision = decide(value)
        return {"verdict": decision.verdict, "explanation": decision.explanation}

    return Prepared(f"{release}: judge, {rubric.key}", sample.key, queries.JUDGE, request, judging.shape, read)


def shown_body(body: Mapping[str, Any]) -> str:
    """A request body as people read it."""
    return json.dumps(body, ensure_ascii=False, indent=2)
