"""MedMistake's published counts, and the layout of its results.

Our copy of the paper breaks off before its table of results: only the models are known.
"""

from evaluation.published import PaperColumn, PublishedTable
from mhb_site.benchmarks.medmistake.taxonomy import RISKS, TERMS

ALL, REVIEWED, VALID = 3390, 299, 211  # mistakes extracted, given to physicians, found valid
MODELS = (
    *("Claude Opus 4.5", "Claude Sonnet 4.5", "DeepSeek-Chat", "Gemini 2.5 Pro", "Gemini 3 Pro", "GPT-4o", "GPT-5"),
    *("GPT-5.1", "GPT-5.2", "Grok 4", "Grok 4.1", "Mistral Large"),
)
ACCURACY = "accuracy_refusals_wrong"  # the paper's verdict is binary

TABLES = (
    PublishedTable(
        "Results",
        "Accuracy on MedMistake-Bench",
        "Section 2.1, step 9",
        (
            PaperColumn("Accuracy", ACCURACY),
            *(
                PaperColumn(str(level.label), ACCURACY, group="Risk", facet="risk", value=level.value)
                for level in RISKS
            ),
        ),
        note=f"The paper measures {len(MODELS)} models ({', '.join(MODELS)}); our copy breaks off before their numbers.",
    ),
    PublishedTable(
        "Results by category",
        "Accuracy by category of the mistake",
        "Section 2.1",
        tuple(PaperColumn(term.label, ACCURACY, facet="category", value=term.code) for term in TERMS),
    ),
    PublishedTable(
        "Figure 3",
        "Share of mistakes that a target repeated, by category",
        "Section 2.1",
        tuple(
            PaperColumn(term.label, "replicated=yes", measure="samples", facet="category", value=term.code)
            for term in TERMS
        ),
        drawn=True,
        note="Of the samples of the release; a batch's analysis counts all its mistakes. The paper draws no numbers.",
    ),
)
