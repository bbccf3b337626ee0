"""Published results for comparison: Table 6, and Tables 9 and 10 (downstream)."""

# Model -> precision, recall, F1 on the test set (Table 6).
TABLE_6 = {
    "Llama-3.2-1B": (0.51, 0.41, 0.46),
    "Llama-3-8B": (0.66, 0.58, 0.62),
    "BioMistral-7B": (0.64, 0.51, 0.57),
    "MedLlama-8B": (0.94, 0.26, 0.40),
    "OpenBioLLM-8B": (0.61, 0.76, 0.68),
    "Prometheus-2-8x7B": (0.85, 0.69, 0.76),
    "HallOumi-8B": (0.67, 0.76, 0.72),
}
# The same on Hallucinations-MIMIC-DI (Table 10): 210 summaries, 152 of them with hallucinations.
TABLE_10 = {
    "Llama-3.2-1B (1 shot)": (0.81, 0.32, 0.45),
    "Llama-3.1-8B (1 shot)": (1.00, 0.13, 0.22),
    "OpenBioLLM-8B (1 shot)": (0.85, 0.60, 0.70),
    "Prometheus-2-8x7B": (0.77, 0.75, 0.76),
    "HallOumi-8B": (0.91, 0.61, 0.73),
    "MedHal (Llama-3-8B)": (0.95, 0.63, 0.76),
}


def f1(precision: float, recall: float) -> float:
    """The harmonic mean."""
    return 2 * precision * recall / (precision + recall)
