"""MedHallu's published results, as far as the text of our copy gives them.

Its tables are separate files that we do not have, and it has no page numbers: tables and figures are
named by their labels in the source.
"""

from evaluation.published import PaperColumn, PublishedGroup, PublishedRow, PublishedTable
from mhb_site.benchmarks.medhallu.taxonomy import DIFFICULTIES, TERMS

GENERAL, MEDICAL = "General LLMs", "Medical fine-tuned LLMs"
GROUPS = (PublishedGroup(GENERAL), PublishedGroup(MEDICAL, ("med", "bio", "clinic", "doctor", "meditron")))
PLAIN, KNOWLEDGE = "plain", "knowledge"
SETTINGS = {PLAIN: "Without knowledge", KNOWLEDGE: "With knowledge"}

# Overall F1 without and with knowledge, F1 of hard cases without.
F1 = {
    "GPT-4o": (None, None, 0.625),
    "Qwen2.5-14B": (None, 0.852, None),
    "Gemma-2-9B": (0.515, 0.838, None),
    "Llama-3.1-8B-Instruct": (0.522, None, None),
    "Qwen2.5-7B": (0.533, None, None),
    "Qwen2.5-3B": (0.606, 0.676, None),
}
MEANS = {GENERAL: (0.533, 0.784), MEDICAL: (0.522, 0.660)}
# Detection ratio by category and by MeSH branch, of one model.
BY_CATEGORY = {"MQ": 0.688, "II": 0.54, "MP": 0.68, "MF": 0.766}
BY_BRANCH = {"C": ("Diseases", 0.571), "D": ("Chemicals and drugs", 0.677), "F": ("Psychiatry", 0.537)}

_COLUMNS = tuple(
    column
    for dataset, setting in SETTINGS.items()
    for column in (
        PaperColumn("Overall F1", "f1", dataset, setting, digits=3),
        PaperColumn("Precision", "precision", dataset, setting, digits=3),
        *(
            PaperColumn(f"{level} F1", "f1", dataset, setting, facet="difficulty", value=level, digits=3)
            for level in reversed(DIFFICULTIES)
        ),
    )
)


def _row(model: str, plain: float | None, knowledge: float | None, hard: float | None, group: str) -> PublishedRow:
    values = (plain, None, hard, None, None, knowledge, None, None, None, None)
    return PublishedRow(model, values, group, mean=model == "mean")


TABLES = (
    PublishedTable(
        "tab:llm_performance_merged",
        "Detection of hallucinations without and with knowledge",
        "Sections Results and Ablation",
        _COLUMNS,
        (
            *(_row(model, *values, GENERAL) for model, values in F1.items()),
            *(_row("mean", *values, None, group) for group, values in MEANS.items()),
        ),
        GROUPS,
        means=True,
        note="Numbers as the text gives them.",
    ),
    PublishedTable(
        "fig:hallucination_types",
        "Detection by category of hallucination",
        "Section Analysis",
        tuple(PaperColumn(term.code, "recall", PLAIN, facet="category", value=term.code, digits=3) for term in TERMS),
        (PublishedRow("Qwen2-7B-Instruct", tuple(BY_CATEGORY[term.code] for term in TERMS)),),
        drawn=True,
        note="Share of hallucinated answers that were detected.",
    ),
    PublishedTable(
        "fig:mesh_categories",
        "Detection accuracy by MeSH category",
        "Section Analysis",
        tuple(
            PaperColumn(label, "accuracy", PLAIN, facet="branch", value=code, digits=3)
            for code, (label, _share) in BY_BRANCH.items()
        ),
        (PublishedRow("Qwen2.5-7B-Instruct", tuple(share for _label, share in BY_BRANCH.values())),),
        drawn=True,
        note="Of the five categories, the text gives three.",
    ),
)
