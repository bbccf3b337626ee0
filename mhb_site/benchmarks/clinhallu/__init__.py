"""ClinHallu: where in the reasoning a model that sees goes wrong."""
