"""The interface by which a benchmark's folder declares how samples are made.

Plain values and async functions, which the generation engine runs.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from generation.common.declared import read_declared
from generation.llm.types import Reply, Request
from generation.recipes.labelled import LabelledAnswers
from generation.recipes.prompts import Prompt
from generation.recipes.review_sampling import ReviewDraw, ReviewShare
from review.rules.blocks import Block

T = TypeVar("T", bound=BaseModel)


class ReplyShape(BaseModel):
    """The shape of a structured reply.

    Models see the docstrings of these classes: they are descriptions in their reply's JSON schema.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


class Dropped(Exception):
    """Raised by a step to give up a draft; the message is the reason shown to people.

    Not an error: nothing is retried. `data` replaces the draft's stored data, so that the recipe's
    `analysis` can count the draft; None keeps what earlier steps stored.
    """

    def __init__(self, reason: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.data = data


@dataclass(frozen=True, slots=True)
class Record:
    """A source record as a recipe sees it.

    `content["kind"]` names its kind (``dialogue``, ``report``). `joined`: format -> contents of the
    records of other sources that this one refers to (a question's article, a heading's place in a
    vocabulary), including those that they refer to in turn.
    """

    external_id: str
    title: str
    language: str
    content: Mapping[str, Any]
    joined: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Term:
    """A taxonomy entry: a trap subtype (`parent` is its cluster), or a cluster (no parent)."""

    code: str
    label: str
    parent: str = ""
    definition: str = ""


class UnknownTerm(LookupError):
    """This code is not in the taxonomy."""

    permanent = True


def check_codes(codes: Iterable[str], known: Collection[str]) -> None:
    """Raise UnknownTerm for a code that is none of the known ones."""
    for code in codes:
        if code not in known:
            raise UnknownTerm(f"{UnknownTerm.__doc__} {code!r}; known: {', '.join(known)}.")


@dataclass(frozen=True, slots=True)
class Draft:
    """A sample in the making.

    `data` is the result of the steps so far. It is stored after each step, so it must be
    JSON-serializable. For a regeneration, `version` is above 1, `previous` is the content of the
    rejected version, `reasons` are the physicians' objections to it, and `earlier` pairs of both
    for the versions before it, the oldest first. `terms` is the taxonomy in force: the benchmark's
    own terms and those that admins added. `preferred`: the terms that the batch's
    trap plan prefers here; a wish, not an order. `prompts` names the set of prompt files, `checks`
    the checks that the batch runs. `settings` are the values of the preset, as frozen at launch.
    `specialties`: those that physicians of this site have, of which a sample may need one.
    `other_values` is None where nothing can be drawn yet, as in an estimate.
    """

    record: Record
    terms: tuple[Term, ...] = ()
    version: int = 1
    reasons: tuple[str, ...] = ()
    previous: Mapping[str, Any] | None = None
    earlier: tuple[tuple[Mapping[str, Any], tuple[str, ...]], ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    preferred: tuple[str, ...] = ()
    prompts: str = ""
    checks: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    specialties: tuple[str, ...] = ()
    other_values: "OtherValues | None" = field(default=None, compare=False)

    def extended(self, **data: Any) -> "Draft":
        """The draft with more data, or other data under the same names."""
        return replace(self, data={**self.data, **data})

    @property
    def rejected_versions(self) -> tuple[tuple[Mapping[str, Any], tuple[str, ...]], ...]:
        """The content of each rejected version and the objections to it, the oldest first."""
        if self.previous is None:
            return self.earlier
        return (*self.earlier, (self.previous, self.reasons))

    def rejected(self, *names: str) -> dict[str, Any] | None:
        """The rejected versions as a prompt shows them; None for a first version.

        ``{version: its content under these names, reasons, earlier_versions_rejected_too}``
        """
        if not self.rejected_versions:
            return None
        shown = []
        for content, reasons in self.rejected_versions:
            version = {name: content[name] for name in names if name in content}
            shown.append({"version": version, "reasons": list(reasons)})
        *earlier, last = shown
        if earlier:
            return {**last, "earlier_versions_rejected_too": earlier}
        return last


class OtherValues(Protocol):
    """Named values of the other records of a record's source, as its importer named them."""

    async def draw(self, name: str, excluded: Collection[str], seed: str) -> str | None:
        """Draw another record's value under `name`, by `seed`; None if there is no suitable one.

        Values in `excluded` are never drawn, however they are written. The record's own value under
        this name belongs in `excluded`.
        """


class Models(Protocol):
    """A step's only access to the models bound to the recipe's roles.

    Every call is in the ledger before it returns.
    """

    def has(self, role: str) -> bool:
        """Whether an endpoint is bound to the role; only an optional role may have none."""

    def model(self, role: str) -> str:
        """The name of the model that plays the role for this draft."""

    async def embed(self, role: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in order. Raises `generation.llm.errors.LLMError`."""

    async def ask(self, role: str, request: Request, *, check: Callable[[str], None] | None = None) -> Reply:
        """Ask the model of a role and return its reply.

        `check` may refuse a text by raising BrokenReply. Raises `generation.llm.errors.LLMError`.
        """

    async def ask_structured(
        self, role: str, request: Request, shape: type[T], *, check: Callable[[T], None] | None = None
    ) -> T:
        """Ask for a reply of the given shape.

        A model whose reply does not fit is shown the error and asked again. Raises BrokenReply if
        no reply fits in the end.
        """


def _always(draft: Draft) -> bool:  # noqa: ARG001
    return True


def _never(draft: Draft) -> bool:  # noqa: ARG001
    return False


def _no_questions(draft: Draft) -> Sequence[tuple[str, str]]:  # noqa: ARG001
    return ()


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a recipe, from one draft to none, one or many.

    Drafts that the step does not apply to skip it. `asks`: (role, prompt label) for each question
    that the step puts to a model; launches are estimated from it. `asks` and `applies` are
    therefore also called before the draft has any `data`. `again`: whether to run the step once
    more on the single draft that it returned. A loop written this way, with one call a turn, is
    stored after every turn.
    """

    name: str
    run: Callable[[Draft, Models], Awaitable[Sequence[Draft]]]
    applies: Callable[[Draft], bool] = _always
    asks: Callable[[Draft], Sequence[tuple[str, str]]] = _no_questions
    again: Callable[[Draft], bool] = _never


def per_draft(
    run: Callable[[Draft, Models], Awaitable[Sequence[Draft]]],
    *,
    applies: Callable[[Draft], bool] = _always,
    asks: Callable[[Draft], Sequence[tuple[str, str]]] = _no_questions,
    again: Callable[[Draft], bool] = _never,
) -> Step:
    """Make a step from an async function of one draft. The step has the function's name."""
    return Step(run.__name__, run, applies, asks, again)


class Arrivals(Protocol):
    """The drafts that met at a barrier, each with a number.

    Streamed in the order of their numbers, as often as needed.
    """

    def __aiter__(self) -> AsyncIterator[tuple[int, Draft]]: ...


@dataclass(frozen=True, slots=True)
class MergedDraft:
    """A draft merged into another one: its distance from that one, and the reason in a sentence."""

    number: int
    distance: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DraftGroup:
    """Drafts that go on as one: the `lead`, and the drafts that are merged into it."""

    lead: int
    others: tuple[MergedDraft, ...] = ()


@dataclass(frozen=True, slots=True)
class NearDraft:
    """A later round's draft that resembles one of an earlier round: their distance, the reason."""

    number: int
    earlier: int
    distance: float
    reason: str = ""


def _data_of_lead(lead: Draft, others: Sequence[Draft]) -> Mapping[str, Any]:  # noqa: ARG001
    return lead.data


@dataclass(frozen=True, slots=True)
class Barrier:
    """A step at which drafts wait until no draft of their batch can still arrive.

    It then runs once over all of them. `run` returns the groups of drafts that go on as one. A
    draft belongs to at most one group; drafts in no group are dropped. A draft that arrives later
    starts another round. `join` returns the data with which a group goes on; it is called again
    whenever an admin merges drafts or undoes a merge, and must not ask a model. `describe`: the
    title and text by which people compare the drafts that arrived. `asks`: the questions that one
    draft adds. `similar(arrivals, leads, ...)` returns the drafts of a later round that would have
    been merged with a lead of an earlier round, had they met; people decide on these.
    """

    name: str
    run: Callable[[Arrivals, Models, Mapping[str, Any]], Awaitable[Sequence[DraftGroup]]]
    describe: Callable[[Mapping[str, Any]], tuple[str, str]]
    join: Callable[[Draft, Sequence[Draft]], Mapping[str, Any]] = _data_of_lead
    applies: Callable[[Draft], bool] = _always
    asks: Callable[[Draft], Sequence[tuple[str, str]]] = _no_questions
    similar: Callable[[Arrivals, Arrivals, Models, Mapping[str, Any]], Awaitable[Sequence[NearDraft]]] | None = None


@dataclass(frozen=True, slots=True)
class NewRubric:
    """One criterion of a new sample. `traps` are the keys of the traps it is tied to.

    `polarity`: 'must' or 'must not'; empty if the benchmark's criteria have none.
    """

    key: str
    criterion: str
    traps: tuple[str, ...] = ()
    polarity: str = ""


@dataclass(frozen=True, slots=True)
class NewSample:
    """A sample as a recipe makes it.

    `content` has the benchmark's own structure; facets are derived from it at the release.
    `specialty`: what the reviewers must be specialists in, where the record says so (empty:
    anyone). The benchmark's `case` passes it on. `prompt` is the label of the prompt that made the
    sample (``mhb/inject_dialogue@2``). `provenance`: how the sample was made, name -> value
    ("entailment": "roberta-large-mnli"); the data card counts the values of each name.
    `review_share`: set if physicians review only a share of the samples; `provenance["review"]` is
    then 'sampled' or 'not sampled' by the time the benchmark is asked for its case. `bound`:
    samples of one record with the same word here (at most 64 characters) are released together or
    not at all.
    """

    task: str
    title: str
    language: str
    content: Mapping[str, Any]
    rubrics: tuple[NewRubric, ...] = ()
    specialty: str = ""
    prompt: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict)
    review_share: ReviewShare | None = None
    bound: str = ""


@dataclass(frozen=True, slots=True)
class ModelRole:
    """A role to which a launch binds an endpoint.

    `default`: the role whose endpoint plays this one if none is bound. `optional`: the recipe works
    without it. `kinds`: the record kinds that need it; empty: all. `checks`: the pre-review checks
    that need it; empty: it is always needed. `independent_of`: the roles whose models must not also
    play this one, because they would judge their own work, or vote twice; such a launch is refused
    unless it says `one_model`. `selects`: samples are chosen by what this model gets wrong, so a
    test on them is biased against it, and leaderboards do not rank it. `multiple`: a launch may
    bind several endpoints, and each record gets a draft for each; at most one role of a recipe may.
    """

    name: str
    label: str
    default: str = ""
    optional: bool = False
    kinds: frozenset[str] = frozenset()
    checks: frozenset[str] = frozenset()
    independent_of: tuple[str, ...] = ()
    selects: bool = False
    multiple: bool = False


@dataclass(frozen=True, slots=True)
class Preset:
    """A named set of the recipe's settings ('paper', 'released code').

    `rule` describes it in a sentence. `prompts`: the set of prompts to use unless a launch names
    one.
    """

    name: str
    label: str
    rule: str
    values: Mapping[str, Any]
    prompts: str = ""


def read_presets(module: str) -> tuple[Preset, ...]:
    """The presets in `presets.json` beside a module.

    The first has a value for each setting, the others have those that they change.
    """
    first, *others = read_declared(Preset, module, "presets.json")
    return (first, *(replace(preset, values={**first.values, **preset.values}) for preset in others))


def settings_in_force(presets: Sequence[Preset], draft: Draft) -> Mapping[str, Any]:
    """The settings of a draft's batch; of the first preset, where it sets none."""
    return {**presets[0].values, **draft.settings}


def preset_name(presets: Sequence[Preset], draft: Draft) -> str:
    """The preset with exactly the values in force; 'own' if the launch changed some."""
    values = settings_in_force(presets, draft)
    for preset in presets:
        if preset.values == values:
            return preset.name
    return "own"


@dataclass(frozen=True, slots=True)
class TrapPlan:
    """How many of `samples` samples should carry each trap.

    `targets`: task -> code of a subtype or cluster -> number. The task "" covers all tasks that are
    not named. Without an entry in `samples`, a task's targets add up to its number of samples.
    """

    name: str
    targets: Mapping[str, Mapping[str, float]]
    samples: Mapping[str, int] = field(default_factory=dict)
    label: str = ""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The result of a check. `stops`: the draft waits for an admin to let it through."""

    check: str
    detail: str
    stops: bool = True


@dataclass(frozen=True, slots=True)
class Check:
    """A check of a finished draft before physicians see it.

    `run` returns a finding, or None if there is nothing to report. `returns`: the role that wrote
    the sample can mend what is found, so the draft goes back to it, as often as the setting
    `returns` of the recipe says; then it waits for an admin.
    """

    name: str
    label: str
    run: Callable[[Draft], CheckFinding | None]
    returns: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a benchmark makes its samples.

    `kinds`: the record kinds that it takes. `roles`: the first one writes the sample. `sample`
    turns a draft that went through all `steps` into a sample. `max_versions`: a sample is discarded
    after this many rejected versions, and listed.

    `checks` run on each finished draft. `compared` returns the text of a sample that must not occur
    twice; None: samples may repeat. `control` returns the same place without the trap, made beside
    a draft's sample; None for no control. `reworded` returns this control in other words, with
    nothing added and nothing removed.

    `plans`: trap plans by name, the default first; their tasks are kinds of records. `prompt_sets`:
    the sets of prompt files besides the default, "". `presets` by name, the default first.
    `choices`: setting -> words (or null) that a launch may choose besides those in the presets.
    `finished` returns the sample of a record that others have published as a sample, and None for
    all other records. Such records become samples many at once, without steps, partners or models,
    if the batch runs no checks; `steps` must be able to make the same sample. `splits` returns, for
    given settings, kind -> the splits of the original data that its records may be from; a launch
    over others is refused. Kinds that are not named may be of any split. `review_draw`: how samples
    are drawn for review.

    `intended`: what the samples are for and what is false in them, in sentences for the data card.
    `training_note`: what the card of an export for training says of the paper's training.

    `labelled` returns the answers in the content of a sample, or of a record of `kinds`, that are
    known to be right or wrong; None where none are. Probes tell whether one can see that without
    reading (`generation.probes`).

    `lineage` returns blocks that show how a draft was made, for the pages of sample and draft.
    `analysis` returns blocks on the data of all drafts of a batch, which it is given as a stream.
    `shares` counts the same drafts for the paper's figures: name -> value -> (hits, total). A
    release keeps those of its batches, as it lacks the drafts that became no sample.
    `restart`: the name of the step at which the next version of a rejected sample begins, "" for
    the first; it begins with what `kept` returns of the previous version's data. `prompt_faults`
    says what is wrong with a file of a team's prompt set, beyond its placeholders.

    `step_labels`: the steps that people can try by themselves, by name, in the order of the recipe.
    `setting_labels`: what pages call the settings of the presets.
    """

    label: str
    kinds: frozenset[str]
    roles: tuple[ModelRole, ...]
    steps: tuple[Step | Barrier, ...]
    sample: Callable[[Draft], NewSample]
    max_versions: int = 3
    checks: tuple[Check, ...] = ()
    compared: Callable[[NewSample], str] | None = None
    plans: tuple[TrapPlan, ...] = ()
    prompt_sets: tuple[str, ...] = ()
    presets: tuple[Preset, ...] = ()
    choices: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    control: Callable[[Draft], NewSample | None] | None = None
    reworded: Callable[[Draft], NewSample | None] | None = None
    intended: str = ""
    training_note: str = ""
    finished: Callable[[Draft], NewSample | None] | None = None
    splits: Callable[[Mapping[str, Any]], Mapping[str, tuple[str, ...]]] | None = None
    review_draw: ReviewDraw | None = None
    lineage: Callable[[Mapping[str, Any]], Sequence[Block]] | None = None
    analysis: Callable[[Iterable[Mapping[str, Any]]], Sequence[Block]] | None = None
    shares: Callable[[Iterable[Mapping[str, Any]]], Mapping[str, Mapping[str, tuple[int, int]]]] | None = None
    labelled: Callable[[Mapping[str, Any]], LabelledAnswers | None] | None = None
    restart: str = ""
    kept: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    step_labels: Mapping[str, str] = field(default_factory=dict)
    setting_labels: Mapping[str, str] = field(default_factory=dict)
    prompt_faults: Callable[[str, Prompt], Iterable[str]] | None = None

    def restart_point(self, data: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """The step at which the version after one with this data begins, and its initial data."""
        if not self.restart:
            return 0, {}
        return [step.name for step in self.steps].index(self.restart), dict(self.kept(data))

    @property
    def multiple_role(self) -> str:
        """The role that several endpoints may play; "" for none."""
        for role in self.roles:
            if role.multiple:
                return role.name
        return ""
