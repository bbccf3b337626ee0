"""MedMistake: mistakes that models made in conversations with patients become questions that elicit them again."""
