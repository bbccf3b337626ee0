"""HealthBench's recipe: published conversations with their rubrics, used unchanged."""

from collections.abc import Sequence
from dataclasses import replace

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Draft, Dropped, Models, NewRubric, NewSample, Recipe, per_draft
from mhb_site.benchmarks.healthbench.taxonomy import points_of, themes_of


async def use_published(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Use a published conversation unchanged. Raises Dropped if it has no rubrics."""
    if finished(draft) is None:
        raise Dropped("It has no rubrics with points.")
    return [replace(draft, data={"published": True})]


def finished(draft: Draft) -> NewSample | None:
    """The sample of a conversation; None if it has no rubrics."""
    if draft.record.content.get("rubrics"):
        return sample(draft)
    return None


def sample(draft: Draft) -> NewSample:
    """The sample of a conversation with rubrics.

    Content: {turns: [{role, content}], themes: [str]}. Each criterion is a rubric, tied to its
    points.
    """
    content = draft.record.content
    rubrics = []
    for number, rubric in enumerate(content["rubrics"], 1):
        rubrics.append(NewRubric(f"R{number}", rubric["criterion"], (points_of(rubric["points"]),)))
    return NewSample(
        task="dialogue",
        title=draft.record.title,
        language=draft.record.language,
        content={"turns": content["turns"], "themes": themes_of(content.get("tags", []))},
        rubrics=tuple(rubrics),
        provenance={_("origin"): _("published")},
    )


RECIPE = Recipe(
    label=_("HealthBench: published conversations with rubrics"),
    intended=(
        "For measuring how well models answer questions about health, by the criteria that physicians "
        "wrote. Nothing in the conversations is wrong on purpose."
    ),
    kinds=frozenset({"dialogue"}),
    roles=(),
    steps=(per_draft(use_published),),
    sample=sample,
    max_versions=1,
    finished=finished,
)
