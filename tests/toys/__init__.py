"""Benchmarks for tests only: `settings.MHB_BENCHMARKS = "tests.toys"` replaces the real ones."""
