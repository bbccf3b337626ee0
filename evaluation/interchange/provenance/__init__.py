"""Evidence in a bundle from which a report's figures on judges can be recomputed."""
