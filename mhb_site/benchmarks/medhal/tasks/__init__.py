"""How records become pairs of statements: one module per task."""
