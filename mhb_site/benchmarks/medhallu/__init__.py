"""MedHallu: hallucinated answers to questions from biomedical articles, to be told from true ones. See README.md here."""
