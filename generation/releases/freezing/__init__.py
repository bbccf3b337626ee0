"""How a release is made: what goes in, what is said of each sample, and how the rows are stored."""
