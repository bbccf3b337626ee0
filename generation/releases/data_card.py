"""The data card of a release."""

from typing import Any

from django.db.models import Min, QuerySet
from django.template.loader import render_to_string
from django.utils import translation

from generation.models import Release, ReleasedSample
from generation.probes import queries as probes_queries
from generation.probes.stored import ShownProbes, as_shown, in_sentences
from generation.recipes import registry
from generation.recipes.configuration import configuration
from generation.releases import queries
from generation.samples import errata
from review.rules.questions import Question
from review.rules.state_machine import Ground


def data_card(release: Release, *, by_reference: bool = False, trains: bool = False) -> str:
    """The data card as Markdown: composition, sources and their terms, review, checksum.

    The terms are licences and restrictions. `by_reference`: for an export without the text of the
    sources. `trains`: for an export that models are trained on.
    """
    with translation.override("en"):  # the same bytes for readers of every language
        return render_to_string(
            "generation/releases/data_card.md", _context(release, by_reference=by_reference, trains=trains)
        )


def _context(release: Release, *, by_reference: bool, trains: bool) -> dict[str, Any]:
    funnel = queries.funnel_of(release)
    funnel_groups = []
    if funnel:
        funnel_groups = [(funnel.data_sets, "data set"), (funnel.by_trap, "trap")]
    training_note = ""
    if trains:
        training_note = registry.recipe(release.benchmark).training_note
    tasks = []
    for task, share in queries.task_shares(release).items():
        tasks.append((task, registry.task_label(task), release.counts["task"][task]["samples"], share))
    return {
        "release": release,
        "texts": queries.card_texts(release),
        "funnel": funnel,
        "funnel_groups": funnel_groups,
        "by_reference": by_reference,
        "trains": trains,
        "training_note": training_note,
        "withheld": queries.withheld_sources(release),
        "reviewed_how": _reviewed_how(release),
        "physicians": _physicians(release),
        "judgments": queries.judgments(release),
        "questions": _questions(release),
        "probes": shown_frozen_probes(release),
        "probes_said": [*filter_said(release), *_probes_said(release)],
        "errata": errata.errata_of(release, reader=None),
        "configuration": configuration(release.benchmark, release.composition.get("configuration", "")),
        "tasks": tasks,
        "intended": intended_use(release.benchmark),
        "agreement": release.about.get("agreement", {}).get(ReleasedSample.Split.PUBLIC, []),
        "adjudicated": release.grounds.get(Ground.ADJUDICATED, 0),
        "adjudicated_share": f"{release.grounds.get(Ground.ADJUDICATED, 0) / max(release.reviewed, 1):.1%}",
    }


# A release never changes, and what runs show of it comes later.
CLAIMS_AT = (
    "Whether the benchmark measures what it says is tested by runs: their claims are on the public page of the release"
    " and, with all numbers behind them, in claims.json and croissant.json of each run's bundle."
)


def responsible_use(release: Release) -> dict[str, str | list[str]]:
    """What the card says in the words of Croissant's RAI vocabulary: name -> text or texts."""
    sources = [f"{source['label']} ({source['licence']})" for source in release.sources]
    restrictions = [source["restrictions"] for source in release.sources if source["restrictions"]]
    made_by = ""
    if release.generators:
        made_by = f" by {', '.join(release.generators)}"
    unreviewed = []
    if release.unreviewed:
        unreviewed = [f"{release.unreviewed} samples were not reviewed by a physician."]
    simulated = []
    if release.simulated:
        simulated = ["The samples were made by simulated models."]
    if release.simulated_samples:
        simulated.append(f"{release.simulated_samples} samples were reviewed by simulated physicians.")
    card = release.about.get("card", {})
    kept = "A release never changes. DATACARD.md lists errata; the next version corrects them."
    maintenance = [kept, CLAIMS_AT]
    if card.get("maintenance"):
        maintenance.append(card["maintenance"])
    biases = _probes_said(release)
    if "biases" in card:
        biases = [card["biases"], *biases]
    return {
        "dataCollection": f"Made from records of the sources{made_by}.",
        "dataCollectionRawData": "; ".join(sources),
        "dataAnnotationProtocol": _reviewed_how(release),
        "dataAnnotationPlatform": ["MHB"],
        "machineAnnotationTools": release.generators,
        "dataUseCases": [intended_use(release.benchmark)],
        "dataLimitations": [*unreviewed, *simulated],
        "personalSensitiveInformation": restrictions,
        "dataReleaseMaintenancePlan": " ".join(maintenance),
        "dataBiases": biases,
    }


def shown_frozen_probes(release: Release) -> ShownProbes | None:
    """What probes told at the freeze, without the held-out samples; None if it was not counted."""
    report = probes_queries.frozen_report(release)
    if report is not None:
        return as_shown(report, with_held_out=False)
    return None


def filter_said(release: Release) -> list[str]:
    """What the card says of a filter to what is hard to tell; [] without one."""
    about = release.about.get("filter")
    if not about:
        return []
    seeds = ""
    if not release.composition.get("held_out"):  # the same seed holds records out, maybe of another release
        seeds = f", seeds {about['seeds'][0]} to {about['seeds'][-1]}"
    return [
        f"Filtered: {about['samples']} samples ({about['share']:.0%} of the records) were left out because the words of"
        f" their answers tell right from wrong most clearly (AFLite with words; {about['slices']} slices of"
        f" {about['partitions']} cross-validations{seeds}).",
        f"The accuracy of words was {about['before']:.3f} before and {about['after']:.3f} after; the latter is biased"
        " downward, because the same words chose. What remains is not a random part: rates on it are not comparable"
        " with those on unfiltered releases, and a shortcut that the filter does not know may remain.",
    ]


def _probes_said(release: Release) -> list[str]:
    report = probes_queries.frozen_report(release)
    if report is not None:
        return in_sentences(report)
    return []


def intended_use(benchmark: str) -> str:
    """What the samples of a benchmark are for, what is false in them, and who may train on them."""
    known = benchmark in registry.names()
    use = ""
    if known:
        use = registry.recipe(benchmark).intended
    trains = known and bool(getattr(registry.module(benchmark, "protocol").PROTOCOL, "example", None))
    training = "Not for training."
    if trains:
        training = "Models may be trained on its training split, and on no other."
    return (
        f"{use or 'For measuring what language models get wrong in medicine.'} {training} Not for advice to patients."
    )


def _questions(release: Release) -> tuple[Question, ...]:
    """The questions physicians were asked, from the first sample reviewed with each form version.

    They explain every stored answer.
    """
    rows = ReleasedSample.objects.filter(release=release).select_related("version__case").order_by("position")
    if "forms" in release.about:
        positions = release.about["forms"]
    else:
        positions = _first_of_each_form(rows)
    questions: dict[tuple[str, str, tuple[str, ...]], Question] = {}
    for sample in rows.filter(position__in=positions):
        for question in sample.version.case.frozen.form.questions:
            key = question.key.partition(":")[0]
            choices = tuple(choice.label for choice in question.choices)
            questions.setdefault((key, question.label, choices), question)
    return tuple(questions.values())


def _first_of_each_form(rows: QuerySet[ReleasedSample]) -> list[int]:
    """The positions of these samples, for a release frozen before they were stored with it."""
    reviewed = rows.exclude(version__case__ground=Ground.UNREVIEWED)
    by_form = reviewed.order_by().values_list("version__case__spec__form_version")
    return [first for _version, first in by_form.annotate(first=Min("position"))]


def _physicians(release: Release) -> str:
    """The reviewers, in the words of the data card."""
    if not release.simulated_samples:
        return "physicians"
    all_simulated = release.reviewers["simulated"] == release.reviewers["physicians"]
    if all_simulated:
        return "simulated physicians"
    return "physicians, some of them simulated"


def _reviewed_how(release: Release) -> list[str]:
    """How the reviewed samples were decided, in sentences, by the ground of their approval.

    Releases frozen before grounds were stored had only one policy: two independent reviewers.
    """
    if not release.grounds:
        return [
            "Every sample passed a primary reviewer and an independent secondary reviewer; where they disagreed, two further"
            " physicians decided."
        ]
    sentences = {
        Ground.PRIMARY_ALONE: "reviewed by one physician, who decided alone, without independent verification.",
        Ground.CONSENSUS: "approved by a primary reviewer and an independent secondary reviewer.",
        Ground.CORRECTED: "approved by both, with rubrics that the secondary reviewer corrected and the primary has not seen.",
        Ground.OBJECTION_LAPSED: "approved by both, with rubrics that the secondary reviewer corrected in wording only; the"
        " primary was shown them and did not object in time.",
        Ground.ADJUDICATED: "decided by two further physicians, after the primary and the independent secondary reviewer"
        " had disagreed.",
    }
    lines = []
    for ground, words in sentences.items():
        n = release.grounds.get(ground, 0)
        if n == 1:
            lines.append(f"1 sample was {words}")
        elif n:
            lines.append(f"{n} samples were {words}")
    if senior := release.about.get("senior_decided"):
        lines.append(f"In {senior} of the adjudicated samples the policy let only senior physicians decide.")
    return lines
