"""A toy benchmark with presets, optional roles, embeddings and samples without review."""
