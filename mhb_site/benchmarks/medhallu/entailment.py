"""Entailment between two answers, judged by a local NLI model, else by a language model.

The local model is used if `transformers` can be imported (the optional extra `nli`) and
MHB_NLI_MODEL names a folder with a model of natural language inference, such as
``microsoft/deberta-large-mnli`` from the paper. Nothing is ever downloaded.
"""

import asyncio
import importlib.util
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from pydantic import Field

from generation.llm.errors import LLMError
from generation.recipes.recipe import Draft, Models, ReplyShape
from mhb_site.benchmarks.medhallu.candidates import SETS
from mhb_site.benchmarks.medhallu.concurrency import gather_all

FOLDER_VARIABLE = "MHB_NLI_MODEL"
MAX_TOKENS = 512  # premise and hypothesis together: the limit of models of the BERT family


class Entailed(ReplyShape):
    """How likely it is that the hypothesis is true if the premise is, in per cent."""

    percent: int = Field(ge=0, le=100)  # servers keep bounds of whole numbers, and drop those of others


class NliMistake(LLMError):
    """The folder in MHB_NLI_MODEL holds no model of natural language inference."""

    permanent = True


@dataclass(frozen=True, slots=True)
class Nli:
    """A judge of entailment.

    `name` identifies it in the data card; `score` is the probability, 0 to 1, that the hypothesis
    (the second text) follows from the premise.
    """

    name: str
    score: Callable[[str, str], Coroutine[Any, Any, float]]


def entailment_judge(draft: Draft, models: Models) -> Nli:
    """The local NLI model if there is one, else the model bound to the role. Raises NliMistake."""
    folder = os.environ.get(FOLDER_VARIABLE, "")
    if folder and importlib.util.find_spec("transformers"):
        return local_nli(folder)
    role = "generator"
    if models.has("entailment"):
        role = "entailment"
    elif models.has("critic"):
        role = "critic"

    async def score(premise: str, hypothesis: str) -> float:
        data = {"question": draft.record.content["question"], "premise": premise, "hypothesis": hypothesis}
        request = SETS[draft.prompts]["entail"].request(data, temperature=0.0)
        return (await models.ask_structured(role, request, Entailed)).percent / 100

    return Nli(f"llm: {role}", score)


async def score_both_ways(nli: Nli, hallucinated: str, truth: str) -> dict[str, float]:
    """Entailment scores: {forward, backward, least}.

    `forward`: the truth follows from the answer; `backward`: the answer from the truth; `least`:
    the smaller of the two.
    """
    forward, backward = await gather_all(nli.score(hallucinated, truth), nli.score(truth, hallucinated))
    return {"forward": forward, "backward": backward, "least": min(forward, backward)}


# ------------------------------------------------------------------------------------------ locally


@cache
def local_nli(folder: str) -> Nli:
    """The model in a folder, loaded on first use. Raises NliMistake if there is no such folder.

    It runs in a thread, one pair at a time, because one pair already occupies the whole processor.
    """
    if not Path(folder).is_dir():
        raise NliMistake("There is no such folder.")
    lock, load = threading.Lock(), cache(partial(_load, folder))

    def score(premise: str, hypothesis: str) -> float:
        import torch

        with lock:
            tokenizer, model, index = load()
            pair = tokenizer(premise, hypothesis, return_tensors="pt", truncation=True, max_length=MAX_TOKENS)
            with torch.inference_mode():
                logits = model(**pair).logits[0]
            return round(float(torch.softmax(logits, dim=-1)[index]), 4)

    return Nli(f"nli: {Path(folder).name}", lambda premise, hypothesis: asyncio.to_thread(score, premise, hypothesis))


def _load(folder: str) -> tuple[Any, Any, int]:
    """Tokenizer, sequence classifier and the index of its label."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    try:
        model = AutoModelForSequenceClassification.from_pretrained(folder, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, ImportError) as error:
        # Its message contains local paths, which must not reach pages.
        raise NliMistake(f"It could not be loaded ({type(error).__name__}).") from error
    index = entailment_index(model.config.id2label)
    model.eval()
    return tokenizer, model, index


def entailment_index(labels: Mapping[int | str, str]) -> int:
    """The index of the label 'entailment', which differs between models.

    Raises NliMistake if missing.
    """
    for index, label in labels.items():
        if label.casefold() in ("entailment", "entails"):
            return int(index)
    raise NliMistake(f"Its labels: {', '.join(map(str, labels.values()))}.")
