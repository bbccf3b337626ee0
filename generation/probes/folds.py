"""Which cases may never be in two folds: those of one record, and near-duplicates.

A probe that has seen a text in training would know its near-duplicate by heart, and a set of
duplicates would look like one that gives its answers away.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from generation.common.components import components
from generation.probes.texts import tokens
from generation.recipes.labelled import LabelledAnswers

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

FOLDS = 5
LONG = 40  # tokens
# The Jaccard index of two texts' pairs of words from which they are near-duplicates: long texts
# share so many only if one was made from the other, short ones may share a phrase by chance. Two
# copies with a tenth of the words of each replaced have an index of .49.
LIKE_IF_LONG, LIKE_IF_SHORT = 0.3, 0.7
SHORTEST_ANSWER = 10  # tokens: "no significant difference" is nobody's duplicate
SHORTEST_CONTEXT = 20
# Texts with an index of .3 share a band in 83 % of cases, of .4 in 98.5 %, of .1 in 6 %; of several
# copies each has to share one with any other.
BANDS, ROWS = 64, 3
COMPARED = 12  # texts of one band with which another is compared, none of which is like the others
_SEED = 192


def clusters(cases: Sequence[LabelledAnswers], records: Sequence[str]) -> "Array":
    """The cluster of each case, (cases,), numbered from 0.

    Cases of one record (`records`), of one origin, with the same context, and near-duplicates by
    all of their text or by a single answer share a cluster, directly or through others.
    """
    import numpy as np

    edges = [*_with_equal_keys(cases, records), *_with_similar_texts(cases)]
    return components(np.array(edges, dtype=np.int64).reshape(-1, 2), len(cases))


def _with_equal_keys(cases: Sequence[LabelledAnswers], records: Sequence[str]) -> Iterable[tuple[int, int]]:
    first_with: dict[tuple[str, str], int] = {}
    for place, (case, record) in enumerate(zip(cases, records, strict=True)):
        keys = [("record", record)]
        keys += [("origin", origin) for origin in case.origins]
        for text in case.contexts.values():
            words = tokens(text)
            if len(words) >= SHORTEST_CONTEXT:
                keys.append(("context", " ".join(words)))
        for key in keys:
            other = first_with.setdefault(key, place)
            if other != place:
                yield other, place


def _with_similar_texts(cases: Sequence[LabelledAnswers]) -> Iterable[tuple[int, int]]:
    """Pairs of cases of which a text is nearly that of the other: a MinHash, then the index itself.

    Of the texts that share a band, each is compared with a few that are unlike one another: a group
    of duplicates is joined by that, and thousands of equal bands take no quadratic time.
    """
    owners: list[int] = []
    shingles: list[Array] = []
    lengths: list[int] = []
    numbers: dict[str, int] = {}
    for place, case in enumerate(cases):
        answers = [tokens(answer) for answer in case.answers]
        texts = [words for words in answers if len(words) >= SHORTEST_ANSWER]
        whole = [*tokens(case.question), *chain.from_iterable(answers)]
        if len(texts) != 1 or len(whole) > len(texts[0]):
            texts.append(whole)
        for words in texts:
            if len(words) > 1:
                owners.append(place)
                shingles.append(_pairs_of_words(words, numbers))
                lengths.append(len(words))
    if not owners:
        return
    compared: set[tuple[int, int]] = set()
    for band in _bands(shingles):
        unlike: dict[int, list[int]] = defaultdict(list)
        for text, value in enumerate(band.tolist()):
            others = unlike[value]
            alike = None
            for other in others:
                if owners[other] == owners[text] or (other, text) in compared:
                    continue
                compared.add((other, text))
                if _alike(shingles[other], shingles[text], min(lengths[other], lengths[text])):
                    alike = other
                    break
            if alike is not None:
                yield owners[alike], owners[text]
            elif len(others) < COMPARED:
                others.append(text)


def _pairs_of_words(words: Sequence[str], numbers: dict[str, int]) -> "Array":
    """The text's pairs of neighbouring words as sorted numbers, each once."""
    import numpy as np

    ids = np.array([numbers.setdefault(word, len(numbers)) for word in words], dtype=np.uint64)
    return np.unique((ids[:-1] << np.uint64(32)) | ids[1:])


def _bands(shingles: Sequence["Array"]) -> Iterable["Array"]:
    """The value of each text in one band after the other: equal where texts may be alike."""
    import numpy as np

    generator = np.random.default_rng(_SEED)
    starts = np.cumsum([0, *(len(each) for each in shingles[:-1])])
    flat = np.concatenate(shingles)
    for _band in range(BANDS):
        value = np.zeros(len(shingles), dtype=np.uint64)
        for _row in range(ROWS):
            # Multiply-shift hashing (Dietzfelbinger et al. 1997), as in `recipes.text_similarity`.
            factor, offset = generator.integers(1, 2**63, size=2, dtype=np.uint64)
            hashed = (flat * (factor * np.uint64(2) + np.uint64(1)) + offset) >> np.uint64(32)
            value = (value << np.uint64(21)) ^ np.minimum.reduceat(hashed, starts)
        yield value


def _alike(one: "Array", other: "Array", shorter: int) -> bool:
    import numpy as np

    common = len(np.intersect1d(one, other, assume_unique=True))
    index = common / (len(one) + len(other) - common)
    if shorter >= LONG:
        return index >= LIKE_IF_LONG
    return index >= LIKE_IF_SHORT


def folds(cluster: "Array", seed: int = 0) -> "Array":
    """The fold of each case, (cases,): whole clusters, the largest first, into the smallest fold.

    Clusters of the same size are in the order of a draw by `seed`.
    """
    import numpy as np

    sizes = np.bincount(cluster)
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    filled = np.zeros(FOLDS, dtype=np.int64)
    fold_of = np.zeros(len(sizes), dtype=np.int64)
    for number in order:
        fold = int(filled.argmin())
        fold_of[number] = fold
        filled[fold] += sizes[number]
    chosen: Array = fold_of[cluster]
    return chosen
