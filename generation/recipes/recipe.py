"""What a benchmark's folder says about making samples: plain values and async functions, run by the generation engine."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from generation.llm.types import Reply, Request
from review.rules.blocks import Block

T = TypeVar("T", bound=BaseModel)


class Dropped(Exception):
    """A step gives a draft up, with the reason to be shown. Not a fault: nothing is retried. `data`: what is kept of the draft,
    so that a recipe's `analysis` can count it; None: what its steps had stored."""

    def __init__(self, reason: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.data = data


@dataclass(frozen=True, slots=True)
class Record:
    """One source record as a recipe sees it. `content["kind"]` says what it is (``dialogue``, ``report``).

    `joined`: format -> contents of the records of other sources that it refers to (a question's article, a heading's place in
    a vocabulary), those that they refer to included.
    """

    external_id: str
    title: str
    language: str
    content: Mapping[str, Any]
    joined: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Term:
    """One entry of a benchmark's taxonomy: a trap subtype (`parent` is its cluster) or a cluster (no parent)."""

    code: str
    label: str
    parent: str = ""
    definition: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """A sample in the making.

    `data` is what the steps have made of it so far (JSON-able: it is stored after each step). For a regeneration,
    `version` is above 1, `previous` the content of the rejected version and `reasons` what the physicians held against it.
    `terms` is the taxonomy in force: the benchmark's own and what admins added. `preferred`: the terms that the batch's plan
    would like here, a wish and no order. `prompts` names the set of prompt files; `checks` the checks that the batch makes.
    `settings` are the values of the preset that the batch was launched with. `others`: None where nothing is to be drawn yet,
    as in an estimate.
    """

    record: Record
    terms: tuple[Term, ...] = ()
    version: int = 1
    reasons: tuple[str, ...] = ()
    previous: Mapping[str, Any] | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    preferred: tuple[str, ...] = ()
    prompts: str = ""
    checks: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    others: "OtherValues | None" = field(default=None, compare=False)


class OtherValues(Protocol):
    """What other records of a record's source say under the names that its importer gave to values."""

    async def draw(self, name: str, besides: Collection[str], seed: str) -> str | None:
        """A value under `name` of another record, by `seed`, that is none of `besides`, however written; None where there is
        none. What the record itself says under the name belongs to `besides`."""


class Models(Protocol):
    """A step's door to the models bound to the recipe's roles. Every call is in the ledger before it returns."""

    def has(self, role: str) -> bool:
        """Whether an endpoint is bound to the role; only an optional one may be without."""

    def model(self, role: str) -> str:
        """The name of the model that plays the role for this draft."""

    async def embed(self, role: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector a text, in their order. Raises `generation.llm.errors.LLMError`."""

    async def ask(self, role: str, request: Request, *, check: Callable[[str], None] | None = None) -> Reply:
        """Raises `generation.llm.errors.LLMError`; BrokenReply for a text that `check` refuses by raising it."""

    async def ask_structured(
        self, role: str, request: Request, shape: type[T], *, check: Callable[[T], None] | None = None
    ) -> T:
        """A reply of the given shape; a wrong one is shown its error and asked again. Raises BrokenReply at last."""


def _always(draft: Draft) -> bool:  # noqa: ARG001
    return True


def _never(draft: Draft) -> bool:  # noqa: ARG001
    return False


def _nothing(draft: Draft) -> Sequence[tuple[str, str]]:  # noqa: ARG001
    return ()


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a recipe: one draft to none, one or many. Drafts that it does not apply to pass it by.

    `asks`: (role, label of the prompt) for each question that it puts to a model, before there is any `data`: what a launch is
    estimated by. `applies` is asked then too. `again`: whether the step is to be run once more over the one draft that it
    made: a loop of one call a turn is stored after every turn.
    """

    name: str
    run: Callable[[Draft, Models], Awaitable[Sequence[Draft]]]
    applies: Callable[[Draft], bool] = _always
    asks: Callable[[Draft], Sequence[tuple[str, str]]] = _nothing
    again: Callable[[Draft], bool] = _never


def each(
    run: Callable[[Draft, Models], Awaitable[Sequence[Draft]]],
    *,
    applies: Callable[[Draft], bool] = _always,
    asks: Callable[[Draft], Sequence[tuple[str, str]]] = _nothing,
    again: Callable[[Draft], bool] = _never,
) -> Step:
    """Make a step of an async function of one draft, under the function's own name."""
    return Step(run.__name__, run, applies, asks, again)


class Arrivals(Protocol):
    """The drafts that met at a barrier, each under a number; streamed, as often as wanted, in the order of their numbers."""

    def __aiter__(self) -> AsyncIterator[tuple[int, Draft]]: ...


@dataclass(frozen=True, slots=True)
class MergedDraft:
    """A draft that goes on in another one, how far it is from that, and the reason in a sentence."""

    number: int
    distance: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DraftGroup:
    """Drafts that go on as one: `lead`, and those that are merged into it."""

    lead: int
    others: tuple[MergedDraft, ...] = ()


@dataclass(frozen=True, slots=True)
class NearDraft:
    """A draft that came to a barrier too late to be compared with an earlier one, how far it is from that, and the reason."""

    number: int
    earlier: int
    distance: float
    reason: str = ""


def _of_lead(lead: Draft, others: Sequence[Draft]) -> Mapping[str, Any]:  # noqa: ARG001
    return lead.data


@dataclass(frozen=True, slots=True)
class Barrier:
    """A step at which drafts wait until no draft of their batch can still arrive; then it runs once over all that are there.

    `run` says which of them go on as one: each is in one group at most, and what is in none is dropped. A draft that arrives
    later starts another round. `join` is the data with which a group goes on; it is called again whenever an admin merges
    drafts or undoes a merge, and asks nobody. `describe`: title and text by which people compare drafts that arrived.
    `asks` is what one draft adds to its questions. `near`: the drafts of a later round that would have been merged with a lead
    of an earlier one (the second arrivals), had they met; people decide on these.
    """

    name: str
    run: Callable[[Arrivals, Models, Mapping[str, Any]], Awaitable[Sequence[DraftGroup]]]
    describe: Callable[[Mapping[str, Any]], tuple[str, str]]
    join: Callable[[Draft, Sequence[Draft]], Mapping[str, Any]] = _of_lead
    applies: Callable[[Draft], bool] = _always
    asks: Callable[[Draft], Sequence[tuple[str, str]]] = _nothing
    near: Callable[[Arrivals, Arrivals, Models, Mapping[str, Any]], Awaitable[Sequence[NearDraft]]] | None = None


@dataclass(frozen=True, slots=True)
class NewRubric:
    """One criterion of a new sample; `traps` are the keys of the traps it is tied to. `polarity`: 'must' or 'must not', empty
    where the benchmark's criteria have none."""

    key: str
    criterion: str
    traps: tuple[str, ...] = ()
    polarity: str = ""


@dataclass(frozen=True, slots=True)
class ReviewShare:
    """Which samples of a stratum in a batch physicians review: a share of them, evenly, from a start drawn by `seed`."""

    share: float
    stratum: str
    seed: int = 0

    def takes(self, place: int) -> bool:
        """Whether the sample at this place of its stratum (from 0) is among them: of n in a row, between n * share - 1 and
        n * share + 1 are."""
        digest = hashlib.sha256(f"{self.seed}\x1f{self.stratum}".encode("utf-8", "surrogatepass")).digest()
        start = int.from_bytes(digest[:6], "big") / 2**48
        return floor((place + 1) * self.share + start) > floor(place * self.share + start)


@dataclass(frozen=True, slots=True)
class NewSample:
    """What a recipe makes. `content` is the benchmark's own; `facets` of a sample are derived at the release.

    specialty: that its reviewers must have, where its record says so (empty: any). A benchmark's `case` passes it on.
    `prompt` is the label of the prompt that made it (``mhb/inject_dialogue@2``). `made`: what the data card says of how samples
    were made, by name ("entailment": "roberta-large-mnli"); it counts them by value. `review_share`: where physicians review
    a share of the samples; then `made["review"]` says 'sampled' or 'not sampled' when the benchmark is asked for its case.
    `bound`: samples of one record with the same word here (at most 64 characters) are released together or not at all.
    """

    task: str
    title: str
    language: str
    content: Mapping[str, Any]
    rubrics: tuple[NewRubric, ...] = ()
    specialty: str = ""
    prompt: str = ""
    made: Mapping[str, str] = field(default_factory=dict)
    review_share: ReviewShare | None = None
    bound: str = ""


@dataclass(frozen=True, slots=True)
class ModelRole:
    """A role that an endpoint is bound to at launch; `default` names the role whose endpoint plays it otherwise.

    `optional`: the recipe can do without. `kinds`: the record kinds for which it is needed; empty: all. `apart`: the role whose
    model should not play this one as well, as it would judge its own work: the batch says so where it does. `selects`: samples
    are chosen by what its model gets wrong, so a test on them is biased against it: leaderboards leave it out of the ranking.
    `several`: a launch may bind several endpoints, and each record gets a draft for each of them; one role of a recipe at most.
    """

    name: str
    label: str
    default: str = ""
    optional: bool = False
    kinds: frozenset[str] = frozenset()
    apart: str = ""
    selects: bool = False
    several: bool = False


DRAWN, NOT_DRAWN = "sampled", "not sampled"  # what `made["review"]` of a sample says after a draw


@dataclass(frozen=True, slots=True)
class ReviewDraw:
    """Which samples of a batch physicians review: of each stratum so many, drawn by a seed among those that came through.

    `size`, `seed`: the names of the settings that say how many of a stratum, and by which seed. `strata`: the keys that tell
    the stratum, `place`: what tells apart the samples of one record; those of one place in several strata are drawn together.
    They are read in a draft's data, and in the content of a `finished` record. Drawn or not is in `made["review"]`, on which
    the benchmark's policy decides. Samples are made once all drafts of the batch have ended, and go through no checks.
    """

    size: str
    seed: str
    strata: tuple[str, ...]
    place: str


@dataclass(frozen=True, slots=True)
class Preset:
    """A named set of the recipe's settings ('paper', 'released code'): `rule` says in a sentence what it stands for.

    `prompts`: the set of prompts that goes with it, where a launch names none.
    """

    name: str
    label: str
    rule: str
    values: Mapping[str, Any]
    prompts: str = ""


@dataclass(frozen=True, slots=True)
class TrapPlan:
    """How many of `samples` samples should carry each trap: task -> code of a subtype or cluster -> number.

    The task "" stands for all that are not named. Without an entry in `samples` the targets of a task add up to it.
    """

    name: str
    targets: Mapping[str, Mapping[str, float]]
    samples: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check has to say about a finished draft. `stops`: it is not put before physicians unless an admin says so."""

    check: str
    detail: str
    stops: bool = True


@dataclass(frozen=True, slots=True)
class Check:
    """A check of a finished draft before physicians see it; `run` answers with the finding, None where all is well."""

    name: str
    label: str
    run: Callable[[Draft], Finding | None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a benchmark makes its samples.

    `kinds`: the record kinds it takes. `max_versions`: after that many rejected versions a sample is discarded and listed.
    The first of `roles` is the one that writes the sample. `checks` are made of each finished draft; `compared` is the text of
    a sample that may not occur twice (None: samples may repeat). `plans` by name, the first is the usual one; a plan's tasks
    are kinds of records. `prompt_sets`: the sets of prompt files besides the usual one, "". `presets` by name, the first is the
    usual one; `choices`: the words (or null) that a launch may give to a setting, besides those in presets. `may_share`: the
    name of a setting without which a launch is refused where one model plays a role and the one it is to be `apart` from; ""
    where that is only warned of. `control`: the same place without the trap, made beside a draft's sample; None for none.
    `finished`: of a record that others have published as a sample, that sample, None for all other records. Such records
    become samples many at once, without steps, partners or models, where the batch makes no checks; `steps` must be able to
    do the same. `splits`: of which splits of the original data records of a kind may be under these settings, kind ->
    splits; a launch over others is refused. Kinds that are not named may be of any. `drawn`: a draw of samples for review.
    `lineage`: what a draft's
    data shows of how it was made, for the pages of sample and draft; `analysis`: what the data of a batch's drafts shows
    together, streamed. `restart`: the name of the step at which the next version of a rejected sample begins, "" for the first;
    it then begins with `kept` of the data of the version before.
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
    may_share: str = ""
    finished: Callable[[Draft], NewSample | None] | None = None
    splits: Callable[[Mapping[str, Any]], Mapping[str, tuple[str, ...]]] | None = None
    drawn: ReviewDraw | None = None
    lineage: Callable[[Mapping[str, Any]], Sequence[Block]] | None = None
    analysis: Callable[[Iterable[Mapping[str, Any]]], Sequence[Block]] | None = None
    restart: str = ""
    kept: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict

    @property
    def several(self) -> str:
        """The role that several endpoints may play; "" for none."""
        return next((role.name for role in self.roles if role.several), "")
