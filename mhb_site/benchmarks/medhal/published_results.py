"""MedHal's published results: Table 6 and Figure 8, and Tables 9 and 10 (downstream).

Our copy of the paper has no page numbers, so a table is placed by its section.
"""

from evaluation.published import PaperColumn, PublishedGroup, PublishedRow, PublishedTable
from mhb_site.benchmarks.medhal.taxonomy import LENGTHS

GENERAL, MEDICAL, EVALUATOR = "General", "Medical", "Evaluator"
GROUPS = (
    PublishedGroup(GENERAL),
    PublishedGroup(MEDICAL, ("med", "bio", "clinic")),
    PublishedGroup(EVALUATOR, ("prometheus", "halloumi", "judge")),
)
CLASS = "positive: factual, as in the released code"


def _detection(dataset: str = "") -> tuple[PaperColumn, ...]:
    names = {"P": "precision", "R": "recall", "F1": "f1"}
    return tuple(PaperColumn(heading, name, dataset, "Factuality") for heading, name in names.items())


# Model -> precision, recall, F1, BLEU, ROUGE-1, ROUGE-2, N.
TABLE_6 = {
    "Llama-3.2-1B": (GENERAL, (0.51, 0.41, 0.46, 0.01, 0.08, 0.03, 1040)),
    "Llama-3-8B": (GENERAL, (0.66, 0.58, 0.62, 0.03, 0.12, 0.08, 15962)),
    "BioMistral-7B": (MEDICAL, (0.64, 0.51, 0.57, 0.09, 0.25, 0.19, 13365)),
    "MedLlama-8B": (MEDICAL, (0.94, 0.26, 0.40, 0.09, 0.32, 0.22, 22395)),
    "OpenBioLLM-8B": (MEDICAL, (0.61, 0.76, 0.68, 0.01, 0.04, 0.01, 7153)),
    "Prometheus-2-8x7B": (EVALUATOR, (0.85, 0.69, 0.76, None, None, None, None)),
    "HallOumi-8B": (EVALUATOR, (0.67, 0.76, 0.72, None, None, None, None)),
}
# F1 on MedNLI's test set.
TABLE_9 = {
    "Llama-3.2-1B": 0.64,
    "Llama-3-8B": 0.65,
    "BioMistral-7B": 0.56,
    "MedLlama-3-8B": 0.66,
    "OpenBioLLM-8B": 0.64,
    "Prometheus-2-8x7B": 0.62,
    "HallOumi-8B": 0.89,
    "Llama-3-8B, fine-tuned on MedNLI": 0.95,
    "Llama-3-8B, fine-tuned on MedHal": 0.96,
}
# Precision, recall, F1 on Hallucinations-MIMIC-DI: 210 summaries, 152 of them with hallucinations.
TABLE_10 = {
    "Llama-3.2-1B (1 shot)": (0.81, 0.32, 0.45),
    "Llama-3.1-8B (1 shot)": (1.00, 0.13, 0.22),
    "OpenBioLLM-8B (1 shot)": (0.85, 0.60, 0.70),
    "Prometheus-2-8x7B": (0.77, 0.75, 0.76),
    "HallOumi-8B": (0.91, 0.61, 0.73),
    "MedHal (Llama-3-8B)": (0.95, 0.63, 0.76),
}
_TASKS = {"qa": "Question Answering", "ie": "Information Extraction", "nli": "NLI", "summarization": "Summarization"}

TABLES = (
    PublishedTable(
        "Table 6",
        "Performance of models on MedHal's test set",
        "Section 4.1",
        (
            *_detection(),
            PaperColumn("BLEU", "bleu", group="Explanation", measure="score"),
            PaperColumn("R1", "rouge1", group="Explanation", measure="score"),
            PaperColumn("R2", "rouge2", group="Explanation", measure="score"),
            PaperColumn("N", "bleu", group="Explanation", measure="scored", digits=0),
        ),
        tuple(PublishedRow(model, values, group) for model, (group, values) in TABLE_6.items()),
        GROUPS,
        means=True,
        note=f"P, R and F1, {CLASS}. N: statements whose explanation could be scored.",
    ),
    PublishedTable(
        "Figure 8",
        "Proportion of model errors by task source",
        "Appendix E",
        tuple(PaperColumn(label, dataset=task, measure="errors") for task, label in _TASKS.items()),
        drawn=True,
        note="The paper draws it without numbers.",
    ),
    PublishedTable(
        "Figure 9",
        "Distribution of context lengths of statements with a wrong label",
        "Appendix E",
        tuple(PaperColumn(str(label), measure="errors", facet="length", value=value) for value, label in LENGTHS),
        drawn=True,
        note="The paper draws densities without numbers; here, shares of each class of length.",
    ),
    PublishedTable(
        "Table 9",
        "F1-score of models on the MedNLI test set",
        "Section 4.4.1",
        (PaperColumn("F1-Score", "f1", "mednli"),),
        tuple(PublishedRow(model, (value,)) for model, value in TABLE_9.items()),
        note=f"F1, {CLASS}.",
    ),
    PublishedTable(
        "Table 10",
        "Evaluation of different models on an hallucination dataset",
        "Section 4.4.2",
        _detection("mimic-di"),
        tuple(PublishedRow(model, values) for model, values in TABLE_10.items()),
        note="The paper does not say which class is positive.",
    ),
)


def f1(precision: float, recall: float) -> float:
    """The harmonic mean."""
    return 2 * precision * recall / (precision + recall)
