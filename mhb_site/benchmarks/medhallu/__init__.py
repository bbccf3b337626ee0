"""MedHallu: detecting hallucinated answers to questions from biomedical articles. See README.md."""
