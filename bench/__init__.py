"""Measurements of what the project promises, one module a subject: `python -m bench.review [--quick] [--json]`.

No timing belongs in a test: here it is a figure beside its goal, and docs/performance.md keeps the last full run.
"""
