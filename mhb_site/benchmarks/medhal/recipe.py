"""How MedHal's statements are made: one way a task (MHL-2 to MHL-6), and what others have published as it is.

A record becomes pairs of a factual and a non-factual statement, which are released together or not at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Draft, ModelRole, Models, NewRubric, NewSample, Recipe, ReviewDraw, Step, each
from mhb_site.benchmarks.medhal import lineage, pair_steps, presets, taxonomy
from mhb_site.benchmarks.medhal.tasks.pair import Pair

PUBLISHED = "statement"
CRITERION = "Says whether the statement is factual."
TITLE = 100  # characters


async def take_over(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """A published statement is a sample as it is."""
    content = draft.record.content
    return [replace(draft, data={"published": True, **{key: content[key] for key in ("source", "task", "label")}})]


def finished(draft: Draft) -> NewSample | None:
    """The sample of a published statement; None for records of which statements are made."""
    return None if draft.record.content["kind"] != PUBLISHED else _published(draft.record.content, draft)


def _published(content: Mapping[str, Any], draft: Draft) -> NewSample:
    made = {_("origin"): _("published"), _("reviewers"): presets.settings(draft)["reviewers"]}
    return _sample(draft, {**content, "length": taxonomy.length_of(content["context"])}, made)


def sample(draft: Draft) -> NewSample:
    """The finished sample.

    content: {kind: 'statement', statement, context, label: 'factual' | 'non-factual', explanation, task: 'qa' | 'ie' | 'nli' |
    'summarization', source, pair (the same for both statements of a pair; '' where there is none), inner_id, split, synthetic,
    length}. One rubric, `label`.
    """
    content = draft.record.content
    if content["kind"] == PUBLISHED:
        return _published(content, draft)
    pair, label = Pair.of(draft.data), draft.data["label"]
    told = draft.data["true" if label == pair_steps.FACTUAL else "false"]
    context, source = pair_steps.context_of(draft, pair), pair_steps.source_of(draft)
    values = presets.settings(draft)
    made = {
        _("origin"): _("made here"),
        _("preset"): next((preset.name for preset in presets.PRESETS if preset.values == values), _("own")),
        _("filter"): _("judged") if "judged" in draft.data else _("not judged"),
        _("reviewers"): values["reviewers"],
    }
    new = {
        "kind": PUBLISHED,
        "statement": told["statement"],
        "context": context,
        "label": label,
        "explanation": told["explanation"],
        "task": pair.task,
        "source": source,
        "pair": f"{source}-{draft.record.external_id}-{pair.place}",
        "inner_id": draft.record.external_id,
        "split": content["split"],
        "synthetic": source == "acn",
        "length": taxonomy.length_of(context),
    }
    names = {"qa": "state_qa", "ie": "state_value", "summarization": "alter"}
    prompt = pair_steps.prompt_of(draft, names[pair.task]).label if pair.task in names else ""
    return replace(_sample(draft, new, made), prompt=prompt, bound=pair.place)


def _sample(draft: Draft, content: Mapping[str, Any], made: Mapping[str, str]) -> NewSample:
    statement = " ".join(content["statement"].split())
    return NewSample(
        task=content["task"],
        title=statement
        if len(statement) <= TITLE
        else f"{statement[:TITLE].rpartition(' ')[0] or statement[:TITLE]} …",
        language=draft.record.language,
        content=content,
        rubrics=(NewRubric("label", CRITERION),),
        made=made,
    )


RECIPE = Recipe(
    label=_("MedHal: factual and non-factual statements"),
    kinds=pair_steps.MADE | {PUBLISHED},
    roles=(
        ModelRole("generator", _("Generator: writes statements, and alters sentences"), kinds=pair_steps.WRITTEN),
        ModelRole(
            "filter",
            _("Filter: judges whether each statement is factual"),
            default="generator",
            kinds=pair_steps.MADE,
            apart="generator",
        ),
    ),
    steps=(
        each(pair_steps.choose, applies=pair_steps.is_made),
        Step("write", pair_steps.write, pair_steps.is_made, pair_steps.asks_of_write),
        Step("judge", pair_steps.judge, pair_steps.is_filtered, pair_steps.asks_of_judge),
        each(pair_steps.split, applies=pair_steps.is_made),
        each(pair_steps.keep, applies=pair_steps.is_made),
        each(take_over, applies=lambda draft: not pair_steps.is_made(draft)),
    ),
    sample=sample,
    max_versions=1,
    prompt_sets=("released",),
    presets=presets.PRESETS,
    choices=presets.CHOICES,
    finished=finished,
    splits=presets.splits,
    drawn=ReviewDraw(size="review_per_label", seed="review_seed", strata=("task", "label"), place="place"),
    lineage=lineage.lineage,
    analysis=lineage.analysis,
)
