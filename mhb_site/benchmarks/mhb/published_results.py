"""MHB's published results: Figure 3 (overall rates), and the layout of Figure 4 (by subtype).

Our copy of the paper has no page numbers, so a figure is placed by its section.
"""

from evaluation.published import PaperColumn, PublishedRow, PublishedTable
from mhb_site.benchmarks.mhb.taxonomy import TERMS

RATE = "hallucination_rate"
PARTS = {"dialogue": "Dialogue", "report": "Report", "": "Combined"}
# Model -> dialogue, report, combined. Those that the text does not give are None.
FIGURE_3 = {
    "Claude": (0.165, 0.346, 0.291),
    "Gemini": (0.357, 0.323, 0.333),
    "GPT": (0.357, 0.533, None),
    "DeepSeek": (0.454, 0.360, 0.388),
    "Qwen": (0.513, 0.624, 0.590),
    "Llama": (0.793, None, 0.575),
}
TABLES = (
    PublishedTable(
        "Figure 3",
        "Overall hallucination rates on the MHB dataset",
        "Section Results",
        tuple(PaperColumn(label, RATE, dataset, digits=3) for dataset, label in PARTS.items()),
        tuple(PublishedRow(model, values) for model, values in FIGURE_3.items()),
        drawn=True,
        note="Numbers as the text gives them; lower is better.",
    ),
    *(
        PublishedTable(
            f"Figure 4{letter}",
            f"Hallucination rates by trap type: {label}",
            "Section Results",
            tuple(
                PaperColumn(term.code, RATE, dataset, facet="subtype", value=term.code, digits=3)
                for term in TERMS
                if term.parent
            ),
            note="The paper draws it without numbers.",
        )
        for letter, (dataset, label) in zip("abc", PARTS.items(), strict=True)
    ),
)
