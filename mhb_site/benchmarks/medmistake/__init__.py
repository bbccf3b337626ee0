"""MedMistake: mistakes made in conversations become questions that elicit them again."""
