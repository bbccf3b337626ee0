"""Uncertainty of the numbers in a report: pure functions over numbers and numpy arrays.

They know nothing of runs, pages or the database. docs/statistics.md lists which function answers
which question, and the coverage measured by simulation.
"""
