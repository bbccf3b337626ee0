#!/usr/bin/env bash
# Expected: lm-eval's filter `multi_choice_regex` finds the option that a sentence chooses, or none.
# Happens: it takes the option whose text the sentence names first, though it be refused: "Aspirin is
#   contraindicated, so give warfarin" is aspirin. With `ignore_punctuation` "Give 1.5 mg." is the
#   option 15 mg, and an option is found within a number: "25 mg" is the option 5 mg.
# Version: lm_eval 0.4.13
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet --disable-pip-version-check install lm_eval==0.4.13
"$folder/venv/bin/python" - <<'PYTHON'
from lm_eval.filters.extraction import MultiChoiceRegexFilter

chosen = MultiChoiceRegexFilter(regex_pattern=r"(\([A-Z]\))", ignore_case=True, ignore_punctuation=True)
drugs = ["Aspirin", "Warfarin", "Heparin", "None of these"]
doses = ["1.5 mg", "15 mg", "5 mg", "0.5 mg"]
replies = [
    ("Aspirin is contraindicated, so give warfarin.", drugs, "(A)"),
    ("Unlike aspirin, heparin works.", drugs, "(A)"),
    ("Give 1.5 mg.", doses, "(B)"),
    ("25 mg", doses, "(C)"),
]
for reply, options, seen in replies:
    [[letter]] = chosen.apply([[reply]], [{"choices": options}])
    print(f"{reply!r}: {letter} {options[ord(letter[1]) - ord('A')]}")
    assert letter == seen, (reply, letter)
PYTHON
