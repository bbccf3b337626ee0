"""Levels of harm: asked once per trap and stored with each rubric.

A rubric has the worst level of its traps, unless it was given a level of its own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from review.rules.questions import Answers, Form, Problem, RubricText


def worst_level(form: Form, levels: Sequence[str]) -> str:
    """The highest of `levels` on the form's scale; "" if any of them is missing."""
    scale = [level.value for level in form.severities]
    known = [scale.index(level) for level in levels if level in scale]
    if known and len(known) == len(levels):
        return scale[max(known)]
    return ""


def trap_levels(form: Form, answers: Answers) -> dict[str, str]:
    """The level of each trap: the most frequent one among its rubrics.

    If any rubrics are tied to this trap alone, only those count.
    """
    result = {}
    for tag in form.tags:
        tied = [rubric for rubric in form.rubrics if tag in rubric.tags]
        exclusive = [rubric for rubric in tied if rubric.tags == (tag,)]
        result[tag] = _most_frequent_level(answers, exclusive or tied)
    return result


def _most_frequent_level(answers: Answers, rubrics: Sequence[RubricText]) -> str:
    """The level that most of these rubrics have; of several, the first one; "" without any."""
    levels: Counter[str] = Counter()
    for rubric in rubrics:
        if level := answers.finding(rubric.key).severity:
            levels[level] += 1
    if not levels:
        return ""
    return max(levels, key=levels.__getitem__)


def own_level(form: Form, answers: Answers, rubric: RubricText, levels: Mapping[str, str]) -> str:
    """The level of a rubric if it differs from its traps', else "". `levels`: of the traps."""
    level = answers.finding(rubric.key).severity
    if level == worst_level(form, [levels[tag] for tag in rubric.tags]):
        return ""
    return level


def problems_by_trap(form: Form, levels: Mapping[str, str], problems: Sequence[Problem]) -> list[Problem]:
    """`problems`, with a missing level of harm reported once at its trap, where it is asked."""
    tags_of_field = {f"rubric.{rubric.key}.severity": rubric.tags for rubric in form.rubrics}
    result: list[Problem] = []
    for problem in problems:
        shown = [problem]
        if problem.code == "severity-missing":
            without_level = [tag for tag in tags_of_field.get(problem.field, ()) if not levels[tag]]
            if without_level:
                shown = [Problem(f"harm.{tag}", problem.code) for tag in without_level]
        for each in shown:
            if each not in result:
                result.append(each)
    return result
