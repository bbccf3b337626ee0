"""MedHal's recipe: pairs of statements from five data sets.

A record becomes pairs of a factual and a non-factual statement, which are released together or not
at all. Published statements are used unchanged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.labelled import LabelledAnswers
from generation.recipes.recipe import (
    Draft,
    ModelRole,
    Models,
    NewRubric,
    NewSample,
    Recipe,
    Step,
    per_draft,
)
from generation.recipes.review_sampling import ReviewDraw
from mhb_site.benchmarks.medhal import lineage, pair_steps, presets, taxonomy
from mhb_site.benchmarks.medhal.tasks.pair import Pair
from review.rules.text import one_line

PUBLISHED = "statement"
CRITERION = "Says whether the statement is factual."


async def use_published(draft: Draft, models: Models) -> Sequence[Draft]:  # noqa: ARG001
    """Use a published statement unchanged."""
    content = draft.record.content
    return [replace(draft, data={"published": True, **{key: content[key] for key in ("source", "task", "label")}})]


def finished(draft: Draft) -> NewSample | None:
    """The sample of a published statement; None for other records."""
    if draft.record.content["kind"] != PUBLISHED:
        return None
    return _published_sample(draft.record.content, draft)


def _published_sample(content: Mapping[str, Any], draft: Draft) -> NewSample:
    entries = {_("origin"): _("published"), _("reviewers"): presets.settings(draft)["reviewers"]}
    return _new_sample(draft, {**content, "length": taxonomy.length_of(content["context"])}, entries)


def sample(draft: Draft) -> NewSample:
    """The finished sample.

    Content: {kind: 'statement', statement, context, label: 'factual' | 'non-factual', explanation,
    task: 'qa' | 'ie' | 'nli' | 'summarization', source, pair (the same for both statements of a
    pair; '' for none), inner_id, split, synthetic, length}. Its one rubric is `label`.
    """
    content = draft.record.content
    if content["kind"] == PUBLISHED:
        return _published_sample(content, draft)
    pair, label = Pair.of(draft.data), draft.data["label"]
    statement_data = draft.data["false"]
    if label == pair_steps.FACTUAL:
        statement_data = draft.data["true"]
    is_judged = _("not judged")
    if label in draft.data.get("judged", ()):
        is_judged = _("judged")
    context, source = pair_steps.context_of(draft, pair), pair_steps.source_of(draft)
    values = presets.settings(draft)
    entries = {
        _("origin"): _("made here"),
        _("preset"): presets.name_of(draft),
        _("filter"): is_judged,
        _("reviewers"): values["reviewers"],
    }
    sample_content = {
        "kind": PUBLISHED,
        "statement": statement_data["statement"],
        "context": context,
        "label": label,
        "explanation": statement_data["explanation"],
        "task": pair.task,
        "source": source,
        "pair": f"{source}-{draft.record.external_id}-{pair.place}",
        "inner_id": draft.record.external_id,
        "split": content["split"],
        "synthetic": source == "acn",
        "length": taxonomy.length_of(context),
    }
    written_by = pair_steps.WRITTEN_BY.get(pair.task)
    prompt = ""
    if written_by:
        prompt = pair_steps.SETS[draft.prompts][written_by].label
    return replace(_new_sample(draft, sample_content, entries), prompt=prompt, bound=pair.place)


def labelled(content: Mapping[str, Any]) -> LabelledAnswers | None:
    """The statement of a sample, or of a published row; None of the records that become pairs."""
    if content["kind"] != PUBLISHED:
        return None
    made_from = []
    if content["inner_id"]:
        made_from = [f"{content['source']} {content['inner_id']}"]
    pair = []
    if content["pair"]:
        pair = [content["pair"]]
    return LabelledAnswers(
        answers=(content["statement"],),
        right=(content["label"] == pair_steps.FACTUAL,),
        contexts={"source": content["context"]},
        facets={"task": content["task"], "data set": content["source"]},
        origins=(*made_from, *pair),
    )


def _new_sample(draft: Draft, content: Mapping[str, Any], made: Mapping[str, str]) -> NewSample:
    return NewSample(
        task=content["task"],
        title=one_line(content["statement"], 100),
        language=draft.record.language,
        content=content,
        rubrics=(NewRubric("label", CRITERION),),
        provenance=made,
    )


def _is_published(draft: Draft) -> bool:
    return not pair_steps.is_generated(draft)


RECIPE = Recipe(
    label=_("MedHal: factual and non-factual statements"),
    intended=(
        "For measuring how well models tell factual medical statements from others. About half of the "
        "statements are wrong on purpose, with an explanation."
    ),
    training_note=(
        "The paper fine-tunes Llama-3-8B, OpenBioLLM-8B and HallOumi-8B for one epoch by QLoRA (4 bit, rank 16, alpha 16, "
        "8,192 tokens, batches of 8 with 2 steps of gradient accumulation, paged AdamW of 8 bit); for its ablation, "
        "Llama-3-8B on the statements of one task."
    ),
    kinds=pair_steps.GENERATED | {PUBLISHED},
    roles=(
        ModelRole(
            "generator", _("Generator: writes statements, and alters sentences"), kinds=pair_steps.WRITTEN_BY_MODEL
        ),
        ModelRole(
            "filter",
            _("Filter: judges whether each statement is factual"),
            kinds=pair_steps.GENERATED,
            independent_of=("generator",),
        ),
    ),
    steps=(
        per_draft(pair_steps.choose, applies=pair_steps.is_generated),
        Step("write", pair_steps.write, pair_steps.is_generated, pair_steps.write_prompts),
        Step("judge", pair_steps.judge, pair_steps.is_filtered, pair_steps.judge_prompts),
        per_draft(pair_steps.split, applies=pair_steps.is_generated),
        per_draft(pair_steps.keep, applies=pair_steps.is_generated),
        per_draft(use_published, applies=_is_published),
    ),
    sample=sample,
    max_versions=1,
    labelled=labelled,
    prompt_sets=("released",),
    presets=presets.PRESETS,
    setting_labels=presets.LABELS,
    choices=presets.CHOICES,
    finished=finished,
    splits=presets.splits,
    review_draw=ReviewDraw(
        size="review_per_label",
        seed="review_seed",
        strata=("task", "label"),
        place="place",
        together="review_batches",
        # Footnote 2: 'We only select Non-Factual samples for the Summarization task since Factual
        # Samples contain no modification of the data.' So all 50 of the task are non-factual.
        multiples={("summarization", pair_steps.FACTUAL): 0, ("summarization", pair_steps.NON_FACTUAL): 2},
    ),
    lineage=lineage.lineage,
    analysis=lineage.analysis,
    shares=lineage.shares,
    step_labels={
        "write": _("Write both statements"),
        "judge": _("Decide whether a statement is factual"),
    },
)
