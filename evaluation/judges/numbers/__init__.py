"""The numbers on judges: plain Python and numpy, for MHB and for checks without MHB."""
