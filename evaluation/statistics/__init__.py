"""How sure the numbers are: pure functions over numbers and numpy arrays. They know no run, no page and no database.

docs/statistics.md says which method answers which question, and the coverage that was measured.
"""
