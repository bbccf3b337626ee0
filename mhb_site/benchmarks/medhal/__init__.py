"""MedHal: factual and non-factual statements from five data sets, to be told apart.

See README.md.
"""
