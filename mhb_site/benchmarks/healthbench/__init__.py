"""HealthBench: published conversations with their physicians' rubrics, scored by its own rule."""
