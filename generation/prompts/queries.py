"""Reads prompt sets: the files of a benchmark's folder, and the stored versions of a team's own."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from json import dumps
from pathlib import Path

from django.db.models import QuerySet

from generation import errors
from generation.models import PromptSet
from generation.recipes import registry
from generation.recipes.prompts import Prompt, in_force, parse_prompt, read_prompt
from review.rules.blocks import Turn
from review.rules.diffing import Span, align_turns
from review.rules.text import whole_number

DEFAULT = "default"  # the benchmark's own set, in addresses and on pages; elsewhere it is ""
LINES_BESIDE = 3  # equal lines that a comparison shows beside a difference
Texts = Mapping[str, str]  # file, without the ending -> text


@dataclass(frozen=True, slots=True)
class ShownSet:
    """A prompt set: a released one, or a version of a team's own (`stored`).

    `name`: as a launch names it, "default" for the benchmark's usual set.
    """

    benchmark: str
    name: str
    texts: Texts
    stored: PromptSet | None = None

    @property
    def digest(self) -> str:
        return digest_of(self.texts)

    @property
    def key(self) -> str:
        """The name by which a launch chooses it."""
        if self.name == DEFAULT:
            return ""
        return self.name

    @property
    def released(self) -> bool:
        return self.stored is None

    @property
    def turns(self) -> list[tuple[str, Prompt]]:
        """Each file with its prompt as it is sent."""
        return [(file, parse_prompt(f"{self.benchmark}/{file}", text)) for file, text in sorted(self.texts.items())]


def digest_of(texts: Texts) -> str:
    """The SHA-256 of a set's texts, whatever their order."""
    return sha256(dumps(dict(texts), sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def folder_texts(folder: Path) -> dict[str, str]:
    """The texts of the prompt files in a folder. Raises ValueError for one that is not UTF-8."""
    return {path.stem: path.read_text(encoding="utf-8-sig") for path in sorted(folder.glob("*.md"))}


def _folder(benchmark: str) -> Path:
    return Path(registry.module(benchmark, "recipe").__file__ or "").parent / "prompts"


def released_texts(benchmark: str) -> dict[str, dict[str, str]]:
    """The sets of a benchmark's folder with all their files: set -> file -> text; "" comes first.

    Raises UnknownBenchmark.
    """
    folder = _folder(benchmark)
    if not folder.is_dir():
        return {"": {}}
    sets = {"": folder_texts(folder)}
    for path in sorted(filter(Path.is_dir, folder.iterdir())):
        if texts := folder_texts(path):
            sets[path.name] = {**sets[""], **texts}
    return sets


def stored_sets(benchmark: str) -> QuerySet[PromptSet]:
    """The stored versions of a benchmark's sets, newest first."""
    return PromptSet.objects.filter(benchmark=benchmark).select_related("author").order_by("-pk")


def choices(benchmark: str) -> list[str]:
    """The full names of the stored versions, which a launch may choose; newest first."""
    return [str(row) for row in stored_sets(benchmark).defer("texts")]


def stored_set(benchmark: str, name: str) -> PromptSet | None:
    """The stored set of a launch: NAME for its newest version, or NAME@VERSION.

    None for a set of the benchmark's folder. Raises UnknownPrompts, which names the known ones.
    """
    if not name:
        return None
    released = registry.recipe(benchmark).prompt_sets
    if name in released:
        return None
    bare, _, number = name.partition("@")
    rows = stored_sets(benchmark).filter(name=bare)
    if number:
        rows = rows.filter(number=whole_number(number, 8) or 0)
    row = rows.order_by("-number").first()
    if row is None:
        known = [*released, *choices(benchmark)]
        raise errors.UnknownPrompts(f"{name!r}; known: {', '.join(known) or '-'}")
    return row


def full_name(benchmark: str, name: str) -> str:
    """The name of a launch's set, with its version if it is a stored one. Raises UnknownPrompts."""
    stored = stored_set(benchmark, name)
    if stored:
        return str(stored)
    return name


def shown_set(benchmark: str, name: str) -> ShownSet:
    """A set by its name: "default", another set of the folder, or NAME or NAME@VERSION.

    Raises UnknownBenchmark, UnknownPrompts.
    """
    released = released_texts(benchmark)
    key = name
    if name == DEFAULT:
        key = ""
    if key in released:
        return ShownSet(benchmark, name or DEFAULT, released[key])
    stored = stored_set(benchmark, key)
    if stored is None:  # a set that the recipe names without having a file of it
        return ShownSet(benchmark, name, released[""])
    return ShownSet(benchmark, str(stored), stored.texts, stored)


def sets(benchmark: str) -> list[ShownSet]:
    """All sets of a benchmark: the released ones, then the stored versions, newest first."""
    released = [ShownSet(benchmark, name or DEFAULT, texts) for name, texts in released_texts(benchmark).items()]
    return released + [ShownSet(benchmark, str(row), row.texts, row) for row in stored_sets(benchmark)]


@contextmanager
def using(benchmark: str, prompt_set: PromptSet | None) -> Iterator[None]:
    """Send the prompts of a job's set where recipe or protocol ask with their own (`in_force`).

    A file that is word for word a released one keeps its released name in the ledger.
    """
    if prompt_set is None or prompt_set.benchmark != benchmark:
        yield
        return
    folder = _folder(benchmark)
    released = {}
    for path in [*sorted(folder.glob("*/*.md")), *sorted(folder.glob("*.md"))]:
        released[path.stem, path.read_text(encoding="utf-8").strip()] = path
    prompts = {}
    for file, text in prompt_set.texts.items():
        released_file = released.get((file, text.strip()))
        if released_file:
            prompts[file] = read_prompt(released_file)
        else:
            prompts[file] = parse_prompt(f"{benchmark}/{prompt_set}/{file}", text)
    with in_force(benchmark, prompts):
        yield


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A prompt file in two sets: each turn that differs, as (role, marked differences).

    Of long passages that are equal, only the lines beside a difference are left.
    """

    file: str
    turns: Sequence[tuple[str, Sequence[Span]]]


def differences(first: ShownSet, second: ShownSet) -> list[FileDifference]:
    """The files that differ between two sets."""
    found = []
    for file in sorted({*first.texts, *second.texts}):
        before, after = _turns(first, file), _turns(second, file)
        if before != after:
            turns = []
            for pair in align_turns(before, after):
                if pair.change != "same":
                    speaker = ""
                    if turn := pair.before or pair.after:
                        speaker = turn.speaker
                    turns.append((speaker, _shortened(pair.spans)))
            found.append(FileDifference(file, turns))
    return found


def _shortened(spans: Sequence[Span]) -> list[Span]:
    """The spans, with long equal ones cut to the lines beside a difference."""
    shortened = []
    for number, span in enumerate(spans):
        lines = span.text.split("\n")
        if span.op == "equal" and len(lines) > 2 * LINES_BESIDE + 1:
            head = []
            if number > 0:
                head = lines[:LINES_BESIDE]
            tail = []
            if number < len(spans) - 1:
                tail = lines[-LINES_BESIDE:]
            span = Span("equal", "\n".join([*head, "[…]", *tail]))
        shortened.append(span)
    return shortened


def _turns(shown: ShownSet, file: str) -> list[Turn]:
    text = shown.texts.get(file)
    if text is None:
        return []
    prompt = parse_prompt(f"{shown.benchmark}/{file}", text)
    return [Turn("version", prompt.version), *(Turn(role, turn) for role, turn in prompt.turns)]
