"""The check of a bundle, which has a copy of it, and of the arithmetic that it shares with MHB."""
