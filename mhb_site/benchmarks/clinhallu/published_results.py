"""ClinHallu's published results: Table 2, Table 4 and Figure 4, and the layout of Tables 3 and 5.

The numbers of Table 2 are those of the README of the released code (Apache-2.0), as the tables are
blank in our copy of the paper, which has no page numbers either: a table is placed by its section.
"""

from evaluation.published import Measure, PaperColumn, PublishedGroup, PublishedRow, PublishedTable, published_numbers
from mhb_site.benchmarks.clinhallu.protocol import FREE, REP_K, REP_V, REP_VK

CLOSED, OPEN = "Closed models", "Open models"
GROUPS = (
    PublishedGroup(CLOSED, ("gpt", "claude", "gemini", "grok", "flash", "plus", "-max", "o3", "o4")),
    PublishedGroup(OPEN),
)
DATASETS = {"vqa-rad": "VQA-RAD", "pathvqa": "PathVQA", "medframeqa": "MedFrameQA", "medxpertqa": "MedXpertQA"}
METRICS = {"acc": ("Acc", "accuracy", FREE), "h_v": ("H^V", "h_visual", REP_K), "h_k": ("H^K", "h_knowledge", REP_V),
           "h_r": ("H^R", "h_reasoning", REP_VK)}  # fmt: skip
AVERAGE = "average"
# Data set -> model -> the metrics in per cent; the printed averages under AVERAGE.
TABLE_2 = published_numbers(__file__, tuple(METRICS))
CLOSED_MODELS = ("Qwen3-VL-Flash", "Qwen3-VL-Plus", "Gemini-3-Flash")
# Table 4, as far as the text gives it: gains in per cent, as means of all models.
GAINS = {"vqa-rad": {REP_V: 15.5, REP_K: 4.6}, "medxpertqa": {REP_V: 13.8, REP_K: 33.4}}
# Figure 4, as far as the text gives it: means of all models.
FIXED = {"vqa-rad": {REP_V: 0.73, REP_K: 0.29}, "medxpertqa": {REP_V: 0.42, REP_K: 0.64}}
BROKEN = {"medxpertqa": {REP_V: 0.22, REP_K: 0.10}}
VARIANTS = {REP_V: "V", REP_K: "K", REP_VK: "VK"}
ALL_MODELS = "Mean of the models"
_MOVES: tuple[tuple[str, Measure], ...] = (("Fix", "fixed"), ("Break", "broken"))


def _stages(task: str) -> tuple[PaperColumn, ...]:
    return tuple(
        PaperColumn(heading, rate, f"{task}-{variant}", DATASETS[task], scale=100, digits=1)
        for heading, rate, variant in METRICS.values()
    )


def _moves() -> tuple[PaperColumn, ...]:
    return tuple(
        PaperColumn(f"{heading} {letter}", "accuracy", f"{task}-{variant}", label, measure)
        for task, label in DATASETS.items()
        for variant, letter in VARIANTS.items()
        for heading, measure in _MOVES
    )


TABLES = (
    PublishedTable(
        "Table 2",
        "Accuracy and stage-wise hallucination rates",
        "Section 4.3",
        tuple(column for task in DATASETS for column in _stages(task)),
        tuple(
            PublishedRow(
                model,
                tuple(value for task in DATASETS for value in TABLE_2[task][model]),
                CLOSED if model in CLOSED_MODELS else OPEN,
            )
            for model in TABLE_2[AVERAGE]
        ),
        GROUPS,
        means=True,
        note="In per cent.",
    ),
    PublishedTable(
        "Tables 3 and 4",
        "Accuracy, and its gains under stage replacement",
        "Section 5.2",
        tuple(
            column
            for task, label in DATASETS.items()
            for column in (
                PaperColumn("Acc", "accuracy", f"{task}-{FREE}", label, scale=100, digits=1),
                *(
                    PaperColumn(f"Δ{letter}", "accuracy", f"{task}-{variant}", label, "gain", scale=100, digits=1)
                    for variant, letter in VARIANTS.items()
                ),
            )
        ),
        (
            PublishedRow(
                ALL_MODELS,
                tuple(
                    value
                    for task in DATASETS
                    for value in (None, *(GAINS.get(task, {}).get(each) for each in VARIANTS))
                ),
                mean=True,
            ),
        ),
        means=True,
        note="In per cent. Published: what the text gives of Table 4.",
    ),
    PublishedTable(
        "Figure 4",
        "Fix and break rates under stage replacement",
        "Section 5.2",
        _moves(),
        (
            PublishedRow(
                ALL_MODELS,
                tuple(
                    moves.get(task, {}).get(variant)
                    for task in DATASETS
                    for variant in VARIANTS
                    for moves in (FIXED, BROKEN)
                ),
                mean=True,
            ),
        ),
        means=True,
        drawn=True,
        note="Published: what the text gives.",
    ),
    PublishedTable(
        "Table 5",
        "Trace-supervised fine-tuning",
        "Section 5.2",
        tuple(column for task in ("vqa-rad", "pathvqa") for column in _stages(task)),
        note="In per cent, one row for each supervision. The numbers are blank in our copy.",
    ),
)
