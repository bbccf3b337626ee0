"""MedHal: statements from five data sets, factual or not, to be told apart. See README.md here."""
