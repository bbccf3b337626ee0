"""Makes releases: which samples go in, what is stored of each, and how the rows are written."""
