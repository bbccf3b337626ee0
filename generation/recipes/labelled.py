"""The answers of a sample or record that are known to be right or wrong, as a benchmark names them.

`Recipe.labelled` returns them; probes (`generation.probes`) ask whether they can be told apart
without being read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class LabelledAnswers:
    """The answers to one question (or the statements on one subject), and which of them are right.

    `answers`: the texts, in the order in which the benchmark shows them. `right`: for each, whether
    it is true. `options`: exactly one answer is right, and a model chooses one of them; if
    false, each answer is judged by itself. `contexts`: name -> text that is given with the question
    ('source'). `facets`: name -> value by which results are shown ('category', 'difficulty').
    `origins`: names of what they were made from, besides the record: what shares one is never in
    two folds.
    """

    answers: tuple[str, ...]
    right: tuple[bool, ...]
    options: bool = False
    question: str = ""
    contexts: Mapping[str, str] = field(default_factory=dict)
    facets: Mapping[str, str] = field(default_factory=dict)
    origins: tuple[str, ...] = ()


def choice(content: Mapping[str, Any], contexts: Mapping[str, str] | None = None) -> LabelledAnswers | None:
    """The options of a question, as importers store them; None if it has none, or no right one.

    content: `options`, a mapping of letters to texts or pairs of both; `letter`, or `answer` with
    the letter of the right one; `question`; `subject` for the facet of that name.
    """
    options = content.get("options")
    if not options:
        return None
    if isinstance(options, Mapping):
        pairs = list(options.items())
    else:
        pairs = [tuple(option) for option in options]
    letter = content.get("letter") or content.get("answer")
    right = tuple(name == letter for name, _text in pairs)
    if sum(right) != 1:
        return None
    facets = {}
    if subject := str(content.get("subject") or ""):
        facets = {"subject": subject}
    return LabelledAnswers(
        answers=tuple(text for _name, text in pairs),
        right=right,
        options=True,
        question=str(content.get("question", "")),
        contexts=contexts or {},
        facets=facets,
    )
