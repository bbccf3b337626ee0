"""ClinHallu: hallucinations of multimodal models, by stage of reasoning. See README.md."""
