"""Which verdicts a number counts: plain Python and numpy, for MHB and for checks without MHB."""
