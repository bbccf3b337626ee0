"""Formats of dates, times and numbers, the same on every page."""

DATE_FORMAT = SHORT_DATE_FORMAT = "Y年n月j日"
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = "Y年n月j日 H:i"
TIME_FORMAT = "H:i"
MONTH_DAY_FORMAT = "n月j日"
THOUSAND_SEPARATOR = ","
NUMBER_GROUPING = 3
