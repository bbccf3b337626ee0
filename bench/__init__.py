"""Measures what the project promises, one module per subject: `python -m bench.review [--quick]`.

Tests do not check timings. Here they are figures beside their goals; docs/performance.md has the
last full run.
"""
