"""ClinHallu's published results: Table 2, Table 4 and Figure 4, and the layout of Tables 3 and 5.

The numbers of Table 2 are those of the README of the released code (Apache-2.0), as the tables are
blank in our copy of the paper, which has no page numbers either: a table is placed by its section.
"""

from evaluation.published import Measure, PaperColumn, PublishedGroup, PublishedRow, PublishedTable
from mhb_site.benchmarks.clinhallu.protocol import FREE, REP_K, REP_V, REP_VK

CLOSED, OPEN = "Closed models", "Open models"
GROUPS = (
    PublishedGroup(CLOSED, ("gpt", "claude", "gemini", "grok", "flash", "plus", "-max", "o3", "o4")),
    PublishedGroup(OPEN),
)
DATASETS = {"vqa-rad": "VQA-RAD", "pathvqa": "PathVQA", "medframeqa": "MedFrameQA", "medxpertqa": "MedXpertQA"}
METRICS = {"acc": ("Acc", "accuracy", FREE), "h_v": ("H^V", "h_visual", REP_K), "h_k": ("H^K", "h_knowledge", REP_V),
           "h_r": ("H^R", "h_reasoning", REP_VK)}  # fmt: skip
# Data set -> model -> Acc, H^V, H^K and H^R in per cent; the printed averages under AVERAGE.
AVERAGE = "average"
TABLE_2: dict[str, dict[str, tuple[float, ...]]] = {
    "vqa-rad": {
        "Qwen3-VL-Flash": (70.9, 50.7, 9.2, 6.8),
        "Qwen3-VL-Plus": (74.2, 44.5, 6.8, 3.9),
        "Gemini-3-Flash": (82.5, 22.9, 3.6, 3.0),
        "Qwen2.5-VL-7B": (54.9, 59.4, 34.1, 12.5),
        "Qwen3-VL-8B": (65.0, 57.0, 17.2, 4.2),
        "Lingshu-7B": (65.3, 45.1, 12.2, 8.9),
        "MedGemma-4B": (71.8, 38.0, 24.3, 14.2),
        "InternVL3.5-8B": (69.7, 35.0, 13.7, 2.7),
        "Qwen3-VL-32B": (78.6, 47.8, 9.5, 3.0),
        "Qwen3.5-4B": (77.7, 38.9, 14.0, 3.3),
        "Qwen3.5-9B": (80.4, 32.3, 6.2, 3.3),
    },
    "pathvqa": {
        "Qwen3-VL-Flash": (72.4, 45.7, 13.5, 7.0),
        "Qwen3-VL-Plus": (72.9, 41.9, 6.7, 5.2),
        "Gemini-3-Flash": (81.6, 21.5, 2.8, 1.9),
        "Qwen2.5-VL-7B": (46.0, 61.2, 38.0, 8.4),
        "Qwen3-VL-8B": (55.0, 55.4, 23.4, 5.2),
        "Lingshu-7B": (64.8, 48.8, 19.8, 5.1),
        "MedGemma-4B": (60.2, 50.1, 29.5, 13.6),
        "InternVL3.5-8B": (58.7, 44.3, 21.6, 3.2),
        "Qwen3-VL-32B": (63.6, 47.7, 11.4, 2.2),
        "Qwen3.5-4B": (69.7, 50.3, 24.2, 2.7),
        "Qwen3.5-9B": (72.7, 34.7, 14.2, 2.2),
    },
    "medframeqa": {
        "Qwen3-VL-Flash": (64.0, 51.0, 17.8, 9.1),
        "Qwen3-VL-Plus": (65.9, 46.7, 10.9, 7.6),
        "Gemini-3-Flash": (71.3, 31.0, 5.5, 3.0),
        "Qwen2.5-VL-7B": (45.3, 64.8, 43.9, 29.1),
        "Qwen3-VL-8B": (53.9, 58.2, 32.6, 14.7),
        "Lingshu-7B": (53.0, 49.4, 25.6, 23.5),
        "MedGemma-4B": (54.6, 52.3, 30.1, 32.4),
        "InternVL3.5-8B": (60.5, 40.8, 21.1, 10.2),
        "Qwen3-VL-32B": (65.7, 49.7, 16.3, 9.4),
        "Qwen3.5-4B": (66.0, 53.0, 29.7, 8.6),
        "Qwen3.5-9B": (70.7, 41.5, 18.6, 8.1),
    },
    "medxpertqa": {
        "Qwen3-VL-Flash": (47.1, 61.1, 39.4, 7.4),
        "Qwen3-VL-Plus": (55.9, 55.8, 25.6, 2.1),
        "Gemini-3-Flash": (85.0, 27.6, 4.2, 1.3),
        "Qwen2.5-VL-7B": (24.7, 78.2, 65.8, 22.3),
        "Qwen3-VL-8B": (32.0, 71.4, 59.7, 7.0),
        "Lingshu-7B": (27.7, 65.6, 51.5, 16.9),
        "MedGemma-4B": (26.4, 64.1, 49.8, 61.7),
        "InternVL3.5-8B": (26.5, 62.5, 49.9, 10.2),
        "Qwen3-VL-32B": (47.2, 58.1, 37.8, 3.1),
        "Qwen3.5-4B": (43.8, 66.0, 54.2, 5.9),
        "Qwen3.5-9B": (52.6, 58.9, 35.8, 5.6),
    },
    AVERAGE: {
        "Qwen3-VL-Flash": (63.6, 52.1, 20.0, 7.6),
        "Qwen3-VL-Plus": (67.2, 47.2, 12.5, 4.7),
        "Gemini-3-Flash": (80.1, 25.8, 4.0, 2.3),
        "Qwen2.5-VL-7B": (42.7, 65.9, 45.5, 18.1),
        "Qwen3-VL-8B": (51.5, 60.5, 33.2, 7.8),
        "Lingshu-7B": (52.7, 52.2, 27.3, 13.6),
        "MedGemma-4B": (53.2, 51.1, 33.4, 30.5),
        "InternVL3.5-8B": (53.9, 45.6, 26.6, 6.6),
        "Qwen3-VL-32B": (63.8, 50.8, 18.8, 4.4),
        "Qwen3.5-4B": (64.3, 52.0, 30.5, 5.1),
        "Qwen3.5-9B": (69.1, 41.9, 18.7, 4.8),
    },
}
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
