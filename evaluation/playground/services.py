"""Shows a prompt as it would be sent, and sends it once, outside any batch or run."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Annotated, Any

from asgiref.sync import async_to_sync
from django.db.models import Q, QuerySet
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _
from pydantic import BaseModel, Field

from evaluation import errors, registry
from evaluation.models import Response
from evaluation.runs import queries
from evaluation.runs.rows.reading import Reader, applicable, rubrics_of
from generation.batches import queries as batches_queries
from generation.errors import NotCallable
from generation.jobs.settings import AskedAs, Settings
from generation.llm.errors import LLMError, in_words
from generation.llm.reply_reading import check_explained
from generation.llm.request_body import build_body, effective, with_schema
from generation.llm.types import Message, Reply, Request, TextPart
from generation.models import Draft, Endpoint, Release, ReleasedSample, SourceRecord
from generation.models.work import Work
from generation.prompts import queries as prompts_queries
from generation.recipes import registry as recipes
from generation.recipes import rehearsal
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import Record, Step
from generation.releases import queries as releases_queries
from generation.samples import queries as samples_queries
from generation.sources import queries as sources_queries
from generation.sources import translated_reasons
from generation.sources.importers import table
from generation.sources.importers.base import Malformed
from generation.sources.other_values import SourceValues
from generation.trials.findings import findings
from generation.trials.sending import Sent, send_once
from review.labels import benchmark_label, with_label
from review.models import User
from review.people.queries import physicians_specialties
from review.rules.shown_fields import Hidden
from review.rules.text import unified_newlines, whole_number

OWN, STEP, MODEL, JUDGE = "own", "step", "model", "judge"
SECONDS = 60.0  # the longest wait, as a person is waiting for the page
WAIT = 90.0  # seconds until a prompt that was sent counts as not answered
MATCHES = 10  # of each kind, that a search shows
DRAFTS_TRIED = 5  # in the search for one that went through the steps before
EDITED = "(edited)"  # after the name of a prompt in the ledger
Parsed = dict[str, Any]


class PlaygroundSettings(Settings):
    """What to try: a prompt of one's own, a step of a recipe, a model under test or a judge."""

    what: str = Field(
        title=_("What to try"),
        description="`own`, `step:BENCHMARK:NAME`, `model:RELEASE@VERSION:DATA SET` or `judge:RELEASE@VERSION`.",
        max_length=300,
    )
    on: str = Field(
        "",
        title=_("Record or sample"),
        description=_(
            "A number, draft:NUMBER, the key of a sample, or words to search for. Leave empty for the first that fits."
        ),
        max_length=300,
    )
    text: Annotated[str, AskedAs(rows=4)] = Field(
        "",
        title=_("Your text"),
        description=_(
            "Used instead of a record: a report, or a conversation whose lines begin with 'Patient:' and 'Doctor:'. "
            "For a prompt of your own, the prompt."
        ),
        max_length=20_000,
    )
    prompts: str = Field(
        "",
        title=_("Prompts"),
        description=_("A prompt set, released or your own: NAME, or NAME@VERSION."),
        max_length=64,
    )
    answer: Annotated[str, AskedAs(rows=3)] = Field("", title=_("Answer to judge"), max_length=20_000)
    temperature: float | None = Field(
        None,
        title=_("Temperature"),
        description=_("Leave empty for the one that a batch or run would send."),
        ge=0,
        le=2,
    )
    turns: Sequence[Annotated[str, Field(max_length=100_000)]] = Field(
        (),
        title=_("Edited turns"),
        description=_("The texts of the prompt's turns in their order, to send instead of the prompt's own."),
        max_length=200,
    )


@dataclass(frozen=True, slots=True)
class Match:
    """A record, draft or sample that a search found; `on`: how the settings name it."""

    on: str
    title: str
    note: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request as it would be sent. `read`: what the benchmark makes of a reply that can be used.

    `on`: the record, draft or sample that it is about; "" for a typed text.
    """

    label: str
    on: str
    role: str
    request: Hidden[Request]
    shape: Hidden[type[BaseModel] | None]
    read: Hidden[Callable[[Sent], Parsed]]

    def body(self, endpoint: Endpoint) -> dict[str, Any]:
        """The body of the HTTP request to an endpoint, with digests for images."""
        request = without_empty_turns(self.request)
        if self.shape is not None:
            request = with_schema(request, self.shape)
        return build_body(endpoint.settings, request)

    def temperature(self, endpoint: Endpoint) -> float | None:
        """The temperature that an endpoint is sent; None: none, so that its server decides."""
        return effective(endpoint.settings, self.request).temperature


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


def choices() -> list[tuple[str, list[tuple[str, str]]]]:
    """What can be tried, in groups: (group, [(what, label)])."""
    groups = [(gettext("Your own"), [(OWN, gettext("A prompt of your own"))])]
    for benchmark in recipes.names():
        labels = recipes.recipe(benchmark).step_labels
        steps = [(f"{STEP}:{benchmark}:{name}", gettext(label)) for name, label in labels.items()]
        groups.append((gettext(recipes.label(benchmark)), steps))
    for release in Release.objects.order_by("-pk")[:20]:
        name = release.reference
        asked = []
        for dataset in queries.data_sets_in(release):
            asked.append((f"{MODEL}:{name}:{dataset.name}", gettext(dataset.label)))
        if registry.protocol(release.benchmark).judge is not None:
            asked.append((f"{JUDGE}:{name}", gettext(queries.ROLES[queries.JUDGE])))
        groups.append((str(release), asked))
    return [(group, options) for group, options in groups if options]


def prompt_choices() -> list[tuple[str, str]]:
    """The prompt sets that can be tried: (name, name with the benchmarks that have one of it)."""
    benchmarks: dict[str, list[str]] = {}
    for benchmark in recipes.names():
        for name in (*recipes.recipe(benchmark).prompt_sets, *prompts_queries.choices(benchmark)):
            benchmarks.setdefault(name, []).append(benchmark_label(benchmark))
    named = [(name, f"{name} ({', '.join(having)})") for name, having in benchmarks.items()]
    return [("", gettext("default prompts")), *named]


def prepare(asked: PlaygroundSettings, model: str = "") -> Prepared:
    """The request as it would be sent to a model of this name, which may have a format of its own.

    Raises NothingToTry, UnknownPrompts, UnknownRelease.
    """
    prepared = _as_it_stands(asked, model)
    request = prepared.request
    if asked.temperature is not None:
        request = replace(request, temperature=asked.temperature)
    if asked.turns:
        request = _edited(request, asked.turns)
    return replace(prepared, request=request)


def is_edited(asked: PlaygroundSettings, turns: Sequence[str], models: Sequence[str]) -> bool:
    """Whether these turns are no prompt that the page shows for one of these models or for none."""
    given = [unified_newlines(text) for text in turns]
    for model in ("", *models):
        messages = _as_it_stands(asked, model).request.messages
        if given == [unified_newlines(message.text) for message in messages]:
            return False
    return True


def _as_it_stands(asked: PlaygroundSettings, model: str) -> Prepared:
    """The request of a batch or run, with nothing edited."""
    kind, _, rest = asked.what.partition(":")
    first, _, second = rest.partition(":")
    try:
        if kind == OWN:
            return _of_own_prompt(asked)
        if kind == STEP:
            return _of_step(asked, first, second)
        if kind == MODEL:
            return _of_model(asked, first, second, model)
        if kind == JUDGE:
            return _of_judge(asked, first)
    except rehearsal.NoQuestion as reason:
        raise errors.NothingToTry(str(reason)) from None
    raise errors.NothingToTry(
        f"{asked.what!r}; write own, step:BENCHMARK:NAME, model:RELEASE:DATA SET or judge:RELEASE."
    )


def _edited(request: Request, turns: Sequence[str]) -> Request:
    """The request with other texts in its turns."""
    if len(turns) != len(request.messages):
        raise errors.NothingToTry(gettext("The prompt has %(n)s turns now.") % {"n": len(request.messages)})
    messages = []
    for message, text in zip(request.messages, map(unified_newlines, turns), strict=True):
        if text == unified_newlines(message.text):
            messages.append(message)
        elif message.images:
            messages.append(Message(message.role, (TextPart(text), *message.images)))
        else:
            messages.append(Message(message.role, text))
    if tuple(messages) == request.messages:
        return request
    return replace(request, messages=tuple(messages), prompt=f"{request.prompt} {EDITED}".strip())


def without_empty_turns(request: Request) -> Request:
    """The request without turns that have neither text nor image.

    Raises NothingToTry if none is left.
    """
    messages = [message for message in request.messages if message.text.strip() or message.images]
    if not messages:
        raise errors.NothingToTry(gettext("The prompt is empty."))
    return replace(request, messages=tuple(messages))


def matches(asked: PlaygroundSettings) -> list[Match]:
    """The records and drafts, or the samples, that the words in `on` find; at most some of each."""
    kind, _, rest = asked.what.partition(":")
    name, _, _ = rest.partition(":")
    if not asked.on:
        return []
    if kind == STEP:
        return [*_matching_records(asked.on, name), *_matching_drafts(asked.on, name)]
    if kind in (MODEL, JUDGE):
        samples = ReleasedSample.objects.filter(release=releases_queries.release(name), key__icontains=asked.on)
        return [Match(sample.key, sample.key, sample.task) for sample in samples.order_by("position")[:MATCHES]]
    return []


def _matching_records(text: str, benchmark: str) -> Iterator[Match]:
    records = _usable_records(benchmark).filter(_named(text)).select_related("source").order_by("pk")
    for record in records[:MATCHES]:
        yield Match(str(record.pk), record.title, f"{record.source} {record.external_id}")


def _matching_drafts(text: str, benchmark: str) -> Iterator[Match]:
    drafts = Draft.objects.filter(_named(text, "record__"), batch__benchmark=benchmark).select_related("record")
    for draft in drafts.defer("data").order_by("-pk")[:MATCHES]:
        note = gettext("draft of batch %(batch)s, version %(version)s")
        yield Match(f"draft:{draft.pk}", draft.record.title, note % {"batch": draft.batch_id, "version": draft.version})


def _named(text: str, of: str = "") -> Q:
    return Q(**{f"{of}title__icontains": text}) | Q(**{f"{of}external_id__icontains": text})


def _usable_records(benchmark: str) -> QuerySet[SourceRecord]:
    """The records from which a benchmark makes samples, without their private part."""
    kinds = recipes.recipe(benchmark).kinds
    return SourceRecord.objects.filter(content__kind__in=kinds, latest=True, archived_at=None).defer("private")


def try_out(prepared: Prepared, endpoint: Endpoint, *, actor: User | None = None) -> TriedReply:
    """Send a prepared request once: priced and in the ledger, in no result.

    Raises NotCallable, and NothingToTry if the prompt is empty.
    """
    if not endpoint.is_usable:
        raise NotCallable(endpoint.name)
    request = without_empty_turns(prepared.request)
    subject = f"playground:{actor.pk if actor else 0}"
    sent = send_once(endpoint, request, prepared.shape, subject=subject, seconds=SECONDS)
    parsed, error = _read(prepared, sent)
    reply = sent.reply or Reply("")
    return TriedReply(
        text=reply.text,
        reasoning=reply.reasoning,
        finish_reason=reply.finish_reason,
        model=reply.model,
        tokens_in=reply.usage.tokens_in,
        tokens_out=reply.usage.tokens_out,
        tokens_reasoning=reply.usage.tokens_reasoning,
        parsed=parsed,
        error=error,
        findings=[{"code": found.code, "words": found.words, "detail": found.detail} for found in findings(sent)],
        seconds=round(sent.seconds, 2),
        cost=str(sent.cost),
        calls=[call.pk for call in sent.calls],
    )


def _read(prepared: Prepared, sent: Sent) -> tuple[Parsed, str]:
    if sent.error is not None:
        last = sent.last
        if last and last.error:
            return {}, in_words(last.error, last.detail)
        return {}, str(sent.error)
    try:
        return prepared.read(sent), ""
    except LLMError as refusal:
        return {}, str(refusal)


def _of_own_prompt(asked: PlaygroundSettings) -> Prepared:
    def read(_sent: Sent) -> Parsed:
        return {}

    request = Request((Message("system", ""), Message("user", asked.text)), prompt=OWN)
    return Prepared(gettext("A prompt of your own"), "", queries.TARGET, request, None, read)


def _of_step(asked: PlaygroundSettings, benchmark: str, name: str) -> Prepared:
    recipe = recipes.recipe(benchmark)
    step = _step_named(benchmark, name)
    on, question = _first_question(asked, benchmark, step)

    def read(sent: Sent) -> Parsed:
        if sent.value is None:
            checked: Any = sent.text
            parsed: Parsed = {}
        else:
            checked = sent.value
            parsed = sent.value.model_dump(mode="json")
        if question.check is not None:
            question.check(checked)
        return parsed

    label = with_label(gettext(recipes.label(benchmark)), gettext(recipe.step_labels.get(name, name)))
    return Prepared(label, on, question.role, question.request, question.shape, read)


def _step_named(benchmark: str, name: str) -> Step:
    """The step of this name of a benchmark's recipe. Raises NothingToTry if it has none."""
    for step in recipes.recipe(benchmark).steps:
        if isinstance(step, Step) and step.name == name:
            return step
    raise errors.NothingToTry(f"{name!r} is no step of {benchmark}.")


def _first_question(asked: PlaygroundSettings, benchmark: str, step: Step) -> tuple[str, rehearsal.RehearsedQuestion]:
    """What a step asks about the first of the candidates about which it asks anything.

    Raises NoQuestion, as it refused the first candidate.
    """
    roles = dict.fromkeys([role.name for role in recipes.recipe(benchmark).roles], "the-model")
    prompts = None
    if asked.prompts:
        prompts = prompts_queries.full_name(benchmark, asked.prompts)
    refusal: rehearsal.NoQuestion | None = None
    for on, draft in _candidates(asked, benchmark):
        if prompts is None:
            chosen = draft
        else:
            chosen = replace(draft, prompts=prompts)
        try:
            with _prompts(benchmark, chosen.prompts):
                return on, rehearsal.first_question(step, chosen, roles)
        except rehearsal.NoQuestion as reason:
            refusal = refusal or reason
    if refusal is not None:
        raise refusal
    raise errors.NothingToTry(
        gettext("No record fits. Import a source that this benchmark can use, or type a text of your own.")
    )


def _prompts(benchmark: str, name: str) -> AbstractContextManager[None]:
    return prompts_queries.using(benchmark, prompts_queries.stored_set(benchmark, name))


def _candidates(asked: PlaygroundSettings, benchmark: str) -> Iterator[tuple[str, DraftValue]]:
    """The draft that is named, or new ones: of the typed text, of the record, or of what fits."""
    if asked.text:
        yield "", _new_draft(benchmark, _typed_record(asked.text, benchmark))
        return
    named = _chosen(asked, benchmark)
    kind, _, number = named.rpartition(":")
    if kind == "draft":
        yield named, _stored_draft(number)
        return
    records = _usable_records(benchmark).order_by("pk")
    if named:
        record = records.filter(pk=whole_number(named) or 0).first()
    else:
        record = records.first()
    if record is not None:
        joined = sources_queries.partner_contents([record])
        value = sources_queries.record_value(record, joined[record.pk])
        yield str(record.pk), _new_draft(benchmark, value, SourceValues(record))
    if not named:
        done = Draft.objects.filter(batch__benchmark=benchmark, status=Work.Status.DONE)
        for draft in done.order_by("-pk")[:DRAFTS_TRIED]:
            yield f"draft:{draft.pk}", batches_queries.draft_value(draft)


def _chosen(asked: PlaygroundSettings, benchmark: str) -> str:
    """The number of a record, or draft:NUMBER, to which `on` leads; "" if it is empty."""
    kind, _, number = asked.on.rpartition(":")
    is_number = whole_number(number) is not None and kind in ("", "draft")
    if not asked.on or is_number:
        return asked.on
    return _only_match(asked, gettext(recipes.label(benchmark)))


def _only_match(asked: PlaygroundSettings, where: str) -> str:
    found = matches(asked)
    if len(found) == 1:
        return found[0].on
    if not found:
        raise errors.NothingToTry(
            gettext("%(where)s: nothing matches '%(text)s'.") % {"where": where, "text": asked.on}
        )
    names = ", ".join([match.on for match in found])
    raise errors.NothingToTry(gettext("Several match '%(text)s': %(names)s.") % {"text": asked.on, "names": names})


def _stored_draft(number: str) -> DraftValue:
    row = Draft.objects.filter(pk=whole_number(number) or 0).first()
    if row is None:
        raise errors.NothingToTry(gettext("There is no draft %(number)s.") % {"number": number})
    return batches_queries.draft_value(row)


def _typed_record(text: str, benchmark: str) -> Record:
    """A record of a typed text. Raises NothingToTry if the benchmark takes no such record."""
    try:
        row = table.typed_record(text)
    except Malformed as reason:
        raise errors.NothingToTry(translated_reasons.translated(str(reason))) from None
    kinds = recipes.recipe(benchmark).kinds
    if row.content["kind"] not in kinds:
        raise errors.NothingToTry(
            gettext("It takes records of these kinds: %(kinds)s. Your text is of the kind %(kind)s.")
            % {"kinds": ", ".join(sorted(kinds)), "kind": row.content["kind"]}
        )
    return Record("typed", row.title, row.language, row.content)


def _new_draft(benchmark: str, record: Record, other_values: SourceValues | None = None) -> DraftValue:
    return DraftValue(
        record=record,
        terms=samples_queries.terms(benchmark),
        prompts=recipes.resolve_prompt_set(benchmark),
        checks=recipes.check_names(benchmark),
        settings=recipes.resolve_settings(benchmark),
        specialties=physicians_specialties(),
        other_values=other_values,
    )


def _sample(asked: PlaygroundSettings, release: Release, tasks: set[str]) -> ReleasedSample:
    samples = ReleasedSample.objects.filter(release=release, task__in=tasks).order_by("position")
    if asked.on:
        sample = samples.filter(key=asked.on).first()
    else:
        sample = samples.first()
    if sample is None and asked.on:
        sample = samples.filter(key=_only_match(asked, str(release))).first()
    if sample is None:
        raise errors.NothingToTry(gettext("%(release)s has no such sample.") % {"release": release})
    return sample


def _of_model(asked: PlaygroundSettings, release_name: str, dataset_name: str, model: str) -> Prepared:
    release = releases_queries.release(release_name)
    protocol = registry.protocol(release.benchmark)
    datasets = {dataset.name: dataset for dataset in queries.data_sets_in(release)}
    if dataset_name:
        dataset = datasets.get(dataset_name)
    else:
        dataset = next(iter(datasets.values()), None)
    if dataset is None:
        raise errors.NothingToTry(f"Data sets of {release}: {', '.join(datasets)}.")
    sample = _sample(asked, release, {dataset.task})
    with _prompts(release.benchmark, asked.prompts):
        ask = queries.question(protocol, sample, 0, dataset.variant, model)

    def read(sent: Sent) -> Parsed:
        if protocol.read is None:
            return {}
        row = Response(sample=sample, variant=ask.variant, about=dict(ask.about))
        rubrics = rubrics_of([sample.pk])[sample.pk]
        reader = Reader(protocol)
        try:
            readings = async_to_sync(reader.readings)(row, sent.text, rubrics, {})
        finally:
            reader.close()
        parsed = {}
        for pk, rubric in applicable(protocol, rubrics, ask.variant):
            parsed[rubric.key] = "left to the judge"
            if decision := readings[pk].decision:
                parsed[rubric.key] = decision.verdict
        return parsed

    return Prepared(f"{release}: {dataset.label}", sample.key, queries.TARGET, ask.request, None, read)


def _of_judge(asked: PlaygroundSettings, release_name: str) -> Prepared:
    release = releases_queries.release(release_name)
    protocol = registry.protocol(release.benchmark)
    if protocol.judge is None:
        raise errors.NoJudgeNeeded
    sample = _sample(asked, release, {dataset.task for dataset in queries.data_sets_in(release)})
    judged = []
    for rubric in queries.rubric_values(sample):
        judging = protocol.judging(rubric.key)
        if judging is not None:
            judged.append((rubric, judging))
    if not judged:
        raise errors.NothingToTry(f"Nothing in {sample.key} is judged by a model.")
    rubric, judging = judged[0]
    variant = min(judging.variants, default="")
    with _prompts(release.benchmark, asked.prompts):
        request = judging.judge(queries.sample_value(sample), rubric, variant, asked.answer or "(no answer)")
    if request.temperature is None:  # as a run that sets none
        request = replace(request, temperature=protocol.judge_temperature)

    def read(sent: Sent) -> Parsed:
        decision = judging.decide(sent.value)
        check_explained(sent.request, [decision.explanation])
        return {"verdict": decision.verdict, "explanation": decision.explanation}

    return Prepared(f"{release}: judge, {rubric.key}", sample.key, queries.JUDGE, request, judging.shape, read)


def shown_body(body: Mapping[str, Any]) -> str:
    """A request body as people read it."""
    return json.dumps(body, ensure_ascii=False, indent=2)
