"""How much people may write and send. Pages, API and commands keep to these numbers.

The services check them; forms and serializers repeat them, so that the refusal names the field.
"""

MAX_ID = 2**63 - 1  # what a primary key can hold

# Characters.
TEXT = 10_000  # a reason or note of a review, and the passage that a source is quoted with
CRITERION = 4_000  # a rubric: its corrected wording, or a new one
REFERENCE = 2_000
SECTION = 500
VALUE = 1_000  # an answer that selects from choices, with all of them
CODE = 100  # a reason's or a level's code, a trap's tag
QUOTE = 20_000  # words that are highlighted
PASSAGE = 30  # the key of a passage
DAY = 10
COMMENT = 4_000  # also the passage it quotes, and an objection to a wording
REMARK = 2_000  # why a case is declined, taken from somebody, withdrawn or reported, or a stopped draft decided on
BECAUSE = 500  # why a model is left out of a run: each of its open rows says so
NOTE = 500  # what changed in a version of a review form or a prompt set
GUIDELINE = 40_000
TITLE = 300  # of a case or sample, whose longer title ends in "…"
NAME = 300  # of a field, or of a row that a request refers to
PROMPT = 50_000  # a prompt file

# Entries.
ENTRIES = 200  # of a list or of names in a request, where nothing says otherwise
CITATIONS = 50  # in a review
ADDED = 50  # rubrics that a physician writes for a case
TAGS = 100  # of one of them
HIGHLIGHTS = 100  # in a review that is submitted; a draft may have twice as many
JSON_VALUES = 100_000  # in the body of a request, keys included
PROBLEMS = 10  # reported of a request to the API; of the others, their number

# Numbers.
LEAST_PRIORITY, MOST_PRIORITY = -(2**15), 2**15 - 1  # of a case: what its column can hold

# Within a minute, by one person.
COMMENTS = 10  # also reports of a problem with a case
