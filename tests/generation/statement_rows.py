"""Made-up records of MedHal and of the data sets it was built from, in their published shapes."""

import json
from typing import Any


def published(n: int = 1, **changes: Any) -> dict[str, Any]:
    """A row of MedHal as its authors publish it."""
    return {
        "id": f"made-up-{n}",
        "context": "A 10-year-old girl had a swollen knee.",
        "statement": f"The patient is {10 + n} years old.",
        "label": False,
        "explanation": "The patient is 10 years old.",
        "inner_id": "155216",
        "source": "acm",
        "synthetic": True,
    } | changes


def medqa(n: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "question": f"A 45-year-old man has made-up fever number {n}. What is the best next step?",
        "answer": "Madeupin",
        "options": {"A": "Fancicillin", "B": "Madeupin", "C": "Wait", "D": "Operate"},
        "meta_info": "step2&3",
        "answer_idx": "B",
        "metamap_phrases": ["45 year old"],
    } | changes


def medmcqa(n: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "question": f"Commonest cause of made-up fever {n} is?",
        "exp": "Ans. b It is a made-up cause.",
        "cop": 2,
        "opa": "Worms",
        "opb": "Germs",
        "opc": "Cold",
        "opd": "Heat",
        "subject_name": "Medicine",
        "topic_name": None,
        "id": f"00000000-{n}",
        "choice_type": "single",
    } | changes


def mednli(n: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "gold_label": "contradiction",
        "sentence1": "Creatinine was 1.7, baseline 0.5.",
        "sentence2": f"The patient has normal creatinine ({n}).",
        "pairID": f"made-up-{n}",
        "sentence1_parse": "(ROOT ...)",
    } | changes


SUMMARY = {
    "visit motivation": "Made-up neck pain",
    "patient information": {"age": "16 years old", "sex": "Female", "ethnicity": "None"},
    "symptoms": [
        {"name of symptom": "Neck pain", "time": "4 months", "intensity of symptom": "None"},
        {"name of symptom": "Fever", "time": "2 days"},
    ],
    "treatments": [{"name": "Madeupin", "dosage": "5 mg"}],
}


def notes(n: int = 1, summary: Any = None, **changes: Any) -> dict[str, Any]:
    text = summary if isinstance(summary, str) else json.dumps(SUMMARY if summary is None else summary)
    return {
        "idx": str(n),
        "note": f"A 16-year-old girl with neck pain, number {n}.",
        "full_note": f"A 16-year-old girl with neck pain, number {n}. She was given Madeupin.",
        "conversation": "Doctor: Hello.\nPatient: My neck hurts.",
        "summary": text,
    } | changes
