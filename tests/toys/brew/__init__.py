"""A toy that uses what an engine offers and our own benchmarks may not: presets, optional roles, vectors, no review."""
