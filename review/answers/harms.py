"""The harm is asked once a trap and kept with each rubric: a rubric has the worst of its traps' levels, or one of its own."""

from collections import Counter
from collections.abc import Mapping, Sequence

from review.rules.questions import Answers, Form, Problem, RubricAnswer, RubricText


def worst(form: Form, levels: Sequence[str]) -> str:
    """The highest of some levels of the scale; empty while one of them is missing."""
    scale = [level.value for level in form.severities]
    known = [scale.index(level) for level in levels if level in scale]
    return scale[max(known)] if known and len(known) == len(levels) else ""


def by_trap(form: Form, answers: Answers) -> dict[str, str]:
    """The level of each trap: the one that most of its rubrics have, of those tied to it alone where there are any."""
    found = {}
    for tag in form.tags:
        tied = [rubric for rubric in form.rubrics if tag in rubric.tags]
        alone = [rubric for rubric in tied if rubric.tags == (tag,)]
        levels = Counter(filter(None, (severity(answers, rubric) for rubric in alone or tied)))
        found[tag] = next((level for level, _count in levels.most_common(1)), "")
    return found


def severity(answers: Answers, rubric: RubricText) -> str:
    return answers.rubrics.get(rubric.key, RubricAnswer()).severity


def own(form: Form, answers: Answers, rubric: RubricText, harms: Mapping[str, str]) -> str:
    """The level of a rubric where it is another than its traps'."""
    level = severity(answers, rubric)
    return "" if level == worst(form, [harms[tag] for tag in rubric.tags]) else level


def asked_by_trap(form: Form, harms: Mapping[str, str], problems: Sequence[Problem]) -> list[Problem]:
    """`problems`, a missing level where it is asked: at the trap, once."""
    tags = {f"rubric.{rubric.key}.severity": rubric.tags for rubric in form.rubrics}
    found: list[Problem] = []
    for problem in problems:
        at = tags.get(problem.field, ()) if problem.code == "severity-missing" else ()
        missing = [Problem(f"harm.{tag}", problem.code) for tag in at if not harms[tag]]
        found += [each for each in missing or [problem] if each not in found]
    return found
