"""Can right and wrong answers be told apart without being read? Measured by cross-validation.

The estimators are scikit-learn's, which is imported late: it takes a second and 80 MB.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from generation.probes import catalogue, folds
from generation.probes.catalogue import PROBES, Probe, Reading
from generation.probes.reasons import NoNumber
from generation.probes.texts import ngrams, shown, tokens
from generation.recipes.labelled import LabelledAnswers
from review.rules.wilson_interval import Z95, wilson

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

VERSION = 1  # of the method; results of another one are not compared
MIN_CASES = 30  # questions with their answers (pairs), or single answers
MIN_CLUSTERS = 10
MIN_IN_GROUP = 30  # answers, or questions with options
SHUFFLES = 10  # at most; fewer of many answers, so that all of them see this many in total
SHUFFLED_ANSWERS = 10_000
ERROR = 0.05  # of all probes together, one-sided
# What is learned in one fold depends on the others, so that the mean over folds varies more than
# that of as many independent answers: its variance is multiplied by this. Measured where nothing
# can be told (bench/probes.py): 1.6 to 1.8; Nadeau & Bengio (2003), Mach. Learn. 52, give 2.25.
FOLDS_DEPEND = 1.8
REGULARISATION = 10.0  # C of the logistic regression on words, whose rows have length 1
FEW = 20  # words of the probe of few words
TELLING_WORDS, TELLING_CASES, EXAMPLES = 25, 25, 50


@dataclass(frozen=True, slots=True)
class ProbeCase:
    """Labelled answers with the name by which people find them.

    `record`: of which they were made. `held_out`: only those who make benchmarks may see them.
    """

    key: str
    record: str
    labelled: LabelledAnswers
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What one probe tells; without a number, `reason` says why.

    accuracy: of answers, the mean of the shares of right and of wrong ones that it labels correctly
        (each class counts half, so that a blind guess has one half); of questions with options, the
        share answered correctly.
    f1: of the wrong answers ('hallucinated' is the positive class); None for options.
    low, high: 95 % interval of the accuracy; clusters are independent, not answers.
    n: answers, or questions with options.
    shuffled: the accuracy after the labels were shuffled within pairs: what chance gives.
    pairs: of a right and a wrong answer to the same question, the share in which it prefers the
        right one; None where answers have no pair.
    tells: the lower bound that holds for all probes at once (Bonferroni, 5 %, one-sided) lies above
        chance.
    """

    name: str
    accuracy: float | None = None
    f1: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    shuffled: float | None = None
    pairs: float | None = None
    tells: bool | None = None
    reason: NoNumber | None = None


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What a probe tells of the cases with one value of a facet, predicted by the same folds."""

    probe: str
    facet: str
    value: str
    n: int
    accuracy: float | None = None
    f1: float | None = None
    low: float | None = None
    high: float | None = None
    reason: NoNumber | None = None


@dataclass(frozen=True, slots=True)
class TellingWord:
    """A word that tells.

    `weight` above 0: it speaks for 'wrong'. `wrong`, `right`: answers with it, of which `public`
    are not held out. `cases`: keys of some cases with it, each with whether it is held out.
    """

    word: str
    weight: float
    wrong: int
    right: int
    public: int
    cases: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class TellingCase:
    """A case that the words give away: the smaller distance of its answers from the boundary."""

    key: str
    held_out: bool
    margin: float


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The result of all probes on a set.

    `options`: questions with options, of which one is chosen; else answers, each judged by itself.
    `chance`: the accuracy of a blind guess. `left_out`: why cases were not counted -> how many.
    `tells`: whether any probe tells; None without a number. `strongest`: the probe with the highest
    accuracy. `reason`: why there is no number at all.
    """

    cases: int
    answers: int
    clusters: int
    options: bool
    chance: float | None
    left_out: Mapping[str, int] = field(default_factory=dict)
    probes: tuple[ProbeResult, ...] = ()
    groups: tuple[GroupResult, ...] = ()
    words: tuple[TellingWord, ...] = ()
    telling: tuple[TellingCase, ...] = ()
    tells: bool | None = None
    strongest: str = ""
    reason: NoNumber | None = None
    version: int = VERSION


class _Set:
    """The answers of all cases as arrays, one entry per answer.

    What is counted are answers, or questions with options: `counted` is the case of each.
    """

    def __init__(self, cases: Sequence[ProbeCase], seed: int) -> None:
        import numpy as np

        self.cases = cases
        self.options = cases[0].labelled.options
        self.readings = [Reading.of(case.labelled) for case in cases]
        sizes = [len(case.labelled.answers) for case in cases]
        self.owner = np.repeat(np.arange(len(cases)), sizes)
        self.answers = np.arange(len(self.owner))
        self.starts = np.cumsum([0, *sizes[:-1]])
        self.place = self.answers - self.starts[self.owner]
        rights = chain.from_iterable(case.labelled.right for case in cases)
        self.wrong = ~np.fromiter(rights, dtype=bool)
        self.cluster = folds.clusters([case.labelled for case in cases], [case.record for case in cases])
        self.clusters = int(self.cluster.max()) + 1
        self.fold = folds.folds(self.cluster, seed)[self.owner]
        self.pair = self._pairs()
        if self.options:
            self.counted = np.arange(len(cases))
            self.chance = float(np.mean([1 / size for size in sizes]))
        else:
            self.counted = self.owner
            self.chance = 0.5

    def _pairs(self) -> "Array":
        """Within which answers labels are shuffled: a case, or a cluster of single answers."""
        import numpy as np

        several = np.bincount(self.owner) > 1
        pair = np.where(several[self.owner], self.owner, len(self.cases) + self.cluster[self.owner])
        both = _both_labels(pair, self.wrong)
        alone = ~both[np.unique(pair, return_inverse=True)[1]]
        labelled: Array = np.where(alone, -1, pair)
        return labelled

    @cached_property
    def ngrams(self) -> tuple[Any, "Array"]:
        """The n-grams of the answers (`_count_ngrams`)."""
        return _count_ngrams(list(chain.from_iterable(reading.answers for reading in self.readings)))

    def of_clusters(self, values: "Array", by: "Array") -> "Array":
        import numpy as np

        return np.bincount(self.cluster[by], weights=values, minlength=self.clusters)

    @property
    def is_paired(self) -> bool:
        return not self.options and all(len(set(case.labelled.right)) > 1 for case in self.cases)

    def shuffled(self, generator: "np.random.Generator") -> "Array":
        """The labels, shuffled within pairs; those without a pair, among one another."""
        import numpy as np

        drawn = generator.random(len(self.wrong))
        original, new = np.lexsort((np.arange(len(drawn)), self.pair)), np.lexsort((drawn, self.pair))
        labels = np.empty_like(self.wrong)
        labels[new] = self.wrong[original]
        return labels


def _count_ngrams(texts: Sequence[list[str]]) -> tuple[Any, "Array"]:
    """(counts of n-grams in two texts at least, a sparse matrix (texts, n-grams); the n-grams)."""
    import numpy as np
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(analyzer=ngrams, min_df=2, dtype=np.float32)
    try:
        counts = counter.fit_transform(texts)
    except ValueError:  # no n-gram occurs twice
        return csr_matrix((len(texts), 1), dtype=np.float32), np.array([""], dtype=object)
    return counts, counter.get_feature_names_out()


def _both_labels(group: "Array", wrong: "Array") -> "Array":
    """Whether each group, in the order of its number, has wrong and right answers."""
    import numpy as np

    _values, number = np.unique(group, return_inverse=True)
    sizes, wrongs = np.bincount(number), np.bincount(number, weights=wrong)
    both: Array = (wrongs > 0) & (wrongs < sizes)
    return both


Progress = Callable[[int, int], None]  # (probes tried, all probes)


def _no_progress(tried: int, total: int) -> None:  # noqa: ARG001
    return None


def measure(cases: Sequence[ProbeCase], *, seed: int = 0, progress: Progress = _no_progress) -> ProbeReport:
    """Try all probes on labelled answers.

    Five folds, which keep clusters together (`folds.clusters`); features are scaled and words
    weighed (TF-IDF) without the labels, then a logistic regression learns from four folds and
    labels the fifth. Intervals are Wilson's with the effective number of answers: n divided by the
    design effect of the clusters (Dean & Pagano 2015, J. Surv. Stat. Methodol. 3), and by
    `FOLDS_DEPEND` if the probe learns.

    Cases with an answer without a word are left out and counted. There is no number, but a reason,
    for fewer than `MIN_CASES` cases, or `MIN_CLUSTERS` clusters of either label, and for answers
    that are all right or all wrong.

    Args:
        cases: either all with options or all without; the others are left out if both occur.
        seed: of the folds and of the shuffled labels. The same seed gives the same report.
        progress: called after each probe; what it raises ends the measuring.
    """
    from threadpoolctl import threadpool_limits

    # Several threads on a machine whose processors are busy wait for one another.
    with threadpool_limits(1):
        return _measure(*_countable(cases), seed, progress)


def _measure(counted: list[ProbeCase], left_out: Mapping[str, int], seed: int, progress: Progress) -> ProbeReport:
    if not counted:
        return ProbeReport(0, 0, 0, False, None, left_out, reason=_too_few(0))
    whole = _Set(counted, seed)
    reason = _reason_against(whole)
    if reason is not None:
        size = (len(counted), len(whole.owner), whole.clusters, whole.options)
        return ProbeReport(*size, None, left_out, reason=reason)
    results: list[ProbeResult] = []
    groups: list[GroupResult] = []
    words: tuple[TellingWord, ...] = ()
    telling: tuple[TellingCase, ...] = ()
    tried = [(probe, _reason_not_to(probe, whole)) for probe in PROBES]
    able = sum(why_not is None for _probe, why_not in tried)
    bound = NormalDist().inv_cdf(1 - ERROR / max(1, able))
    for number, (probe, why_not) in enumerate(tried):
        progress(number, len(tried))
        if why_not is not None:
            results.append(ProbeResult(probe.name, reason=why_not))
            continue
        features = _Features(probe, whole)
        scores = features.scores(whole.wrong)
        results.append(_result(probe, whole, scores, features, bound, seed))
        groups += _groups(probe, whole, scores)
        if probe.name == "words":
            words, telling = features.telling_words(), _telling_cases(whole, scores)
    measured = [result for result in results if result.accuracy is not None]
    best = max(measured, key=lambda result: result.accuracy or 0)
    return ProbeReport(
        cases=len(counted),
        answers=len(whole.owner),
        clusters=whole.clusters,
        options=whole.options,
        chance=round(whole.chance, 4),
        left_out=left_out,
        probes=tuple(results),
        groups=tuple(groups),
        words=words,
        telling=telling,
        tells=any(result.tells for result in results),
        strongest=best.name,
    )


def _countable(cases: Sequence[ProbeCase]) -> tuple[list[ProbeCase], dict[str, int]]:
    """The cases of the more frequent kind whose answers all have a word; why others do not."""
    kinds = Counter(case.labelled.options for case in cases)
    options = kinds[True] > kinds[False]
    counted: list[ProbeCase] = []
    left_out: Counter[str] = Counter()
    for case in cases:
        labelled = case.labelled
        if labelled.options != options:
            left_out["other-kind"] += 1
        elif not all(tokens(answer) for answer in labelled.answers):
            left_out["empty-answer"] += 1
        elif options and sum(labelled.right) != 1:
            left_out["not-one-right"] += 1
        else:
            counted.append(case)
    return counted, dict(sorted(left_out.items()))


def _too_few(n: int) -> NoNumber:
    return NoNumber("too-few", {"n": n, "least": MIN_CASES})


def _reason_against(whole: _Set) -> NoNumber | None:
    if len(whole.cases) < MIN_CASES:
        return _too_few(len(whole.cases))
    if _is_one_class(whole.wrong):
        return NoNumber("one-class")
    if whole.clusters < MIN_CLUSTERS:
        return NoNumber("few-clusters", {"n": whole.clusters, "least": MIN_CLUSTERS})
    rarer = min(_clusters_with(whole, whole.wrong), _clusters_with(whole, ~whole.wrong))
    if rarer < MIN_CLUSTERS:
        return NoNumber("few-of-a-label", {"n": rarer, "least": MIN_CLUSTERS})
    return None


def _clusters_with(whole: _Set, answers: "Array") -> int:
    """The clusters that have one of these answers (a mask)."""
    import numpy as np

    return len(np.unique(whole.cluster[whole.owner[answers]]))


def _is_one_class(wrong: "Array") -> bool:
    return bool(wrong.all() or not wrong.any())


def _reason_not_to(probe: Probe, whole: _Set) -> NoNumber | None:
    has = {
        catalogue.OPTIONS: whole.options,
        catalogue.ANSWERS: not whole.options,
        catalogue.QUESTION: any(reading.question for reading in whole.readings),
        catalogue.UNPAIRED: not whole.is_paired,
    }
    for name in catalogue.CONTEXTS:
        has[name] = any(reading.contexts.get(name) for reading in whole.readings)
    for need in probe.needs:
        if not has[need]:
            return NoNumber(f"needs-{need}")
    return None


_OF_WORDS = ((catalogue.WORDS,), (catalogue.FEW_WORDS,), (catalogue.QUESTION_WORDS,))


class _Features:
    """What one probe sees of a set, and what it learns from it."""

    def __init__(self, probe: Probe, whole: _Set) -> None:
        self._set = whole
        self._sees = probe.features
        self._weights: Array | None = None
        # The row of the matrix for each answer.
        if self._sees == (catalogue.QUESTION_WORDS,):
            self._rows = whole.owner
        else:
            self._rows = whole.answers
        if self._sees in _OF_WORDS:
            self._matrix = self._words()
        else:
            self._matrix = self._numbers()

    def _numbers(self) -> Any:
        import numpy as np

        whole = self._set
        if self._sees == (catalogue.POSITION,):
            return np.eye(int(whole.place.max()) + 1)[whole.place]
        columns = [catalogue.FEATURES[name] for name in self._sees]
        rows = []
        for owner, place in zip(whole.owner.tolist(), whole.place.tolist(), strict=True):
            rows.append([column(whole.readings[owner], place) for column in columns])
        matrix = np.array(rows, dtype=float).reshape(len(rows), len(columns))
        if whole.options:  # only differences between the options of a question can tell
            means = np.add.reduceat(matrix, whole.starts) / np.bincount(whole.owner)[:, None]
            matrix = matrix - means[whole.owner]
        deviations = matrix.std(axis=0)
        return (matrix - matrix.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)

    def _words(self) -> Any:
        """TF-IDF of n-grams, rows of length 1, or whether each occurs; it never sees a label."""
        import numpy as np
        from sklearn.feature_extraction.text import TfidfTransformer

        if self._sees == (catalogue.QUESTION_WORDS,):
            counts, _names = _count_ngrams([tokens(case.labelled.question) for case in self._set.cases])
        else:
            counts, _names = self._set.ngrams
        if self._sees == (catalogue.FEW_WORDS,):
            return (counts > 0).astype(np.float32)
        return TfidfTransformer(sublinear_tf=True).fit_transform(counts)

    def _model(self) -> Any:
        from sklearn.feature_selection import SelectKBest, chi2
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        is_tf_idf = self._sees in _OF_WORDS and self._sees != (catalogue.FEW_WORDS,)
        strength = 1.0
        if is_tf_idf:
            strength = REGULARISATION
        regression = LogisticRegression(C=strength, class_weight="balanced", max_iter=300, tol=1e-3)
        if self._sees == (catalogue.FEW_WORDS,):
            return make_pipeline(SelectKBest(chi2, k=min(FEW, self._matrix.shape[1])), regression)
        return make_pipeline(regression)

    def scores(self, wrong: "Array") -> "Array":
        """How much speaks for 'wrong', (answers,), by what was learned in the other folds."""
        import numpy as np

        whole = self._set
        if not self._sees:
            return np.ones(len(whole.owner))
        if self._sees == (catalogue.LONGEST,):
            longest: Array = -self._matrix[:, 0]
            return longest
        if self._sees == (catalogue.QUESTION_WORDS,) and whole.options:
            return self._position_scores(wrong)
        scores = np.zeros(len(whole.owner))
        weights: list[Array] = []
        for fold in range(folds.FOLDS):
            training, test = whole.fold != fold, whole.fold == fold
            if _is_one_class(wrong[training]):  # by chance, after shuffling
                scores[test] = np.where(wrong[training][0], 1.0, -1.0)
                continue
            model = self._model().fit(self._matrix[self._rows[training]], wrong[training])
            scores[test] = model.decision_function(self._matrix[self._rows[test]])
            weights.append(model[-1].coef_[0])
        if self._sees == (catalogue.WORDS,) and self._weights is None and weights:
            self._weights = np.mean(weights, axis=0)
        return scores

    def _position_scores(self, wrong: "Array") -> "Array":
        """Options by how likely the words of the question make the position of each."""
        import numpy as np

        whole = self._set
        right_place, fold = whole.place[~wrong], whole.fold[whole.starts]
        scores = np.zeros(len(whole.owner))
        for number in range(folds.FOLDS):
            training, test = fold != number, whole.fold == number
            chances = np.zeros((len(whole.cases), int(whole.place.max()) + 1))
            if len(set(right_place[training].tolist())) > 1:
                model = self._model().fit(self._matrix[training], right_place[training])
                chances[:, model.classes_] = model.predict_proba(self._matrix)
            scores[test] = -chances[whole.owner[test], whole.place[test]]
        return scores

    def telling_words(self) -> tuple[TellingWord, ...]:
        """The n-grams with the largest weights on either side, the heaviest first."""
        import numpy as np

        if self._weights is None:
            return ()
        whole = self._set
        counts, names = whole.ngrams
        order = np.argsort(self._weights)
        columns = [*order[::-1][:TELLING_WORDS].tolist(), *order[:TELLING_WORDS].tolist()]
        by_column = counts.tocsc()
        words = []
        for column in dict.fromkeys(columns):
            rows = np.sort(by_column.indices[by_column.indptr[column] : by_column.indptr[column + 1]])
            wrong = int(whole.wrong[rows].sum())
            owners = whole.owner[rows].tolist()
            public = sum(not whole.cases[owner].held_out for owner in owners)
            found = [whole.cases[owner] for owner in dict.fromkeys(owners)]
            examples = tuple((case.key, case.held_out) for case in found[:EXAMPLES])
            weight = round(float(self._weights[column]), 3)
            text = shown(names[column])
            words.append(TellingWord(text, weight, wrong, len(rows) - wrong, public, examples))
        return tuple(sorted(words, key=lambda word: -abs(word.weight)))


def _hits(whole: _Set, scores: "Array", wrong: "Array") -> "Array":
    """Whether each answer is labelled correctly, or each question answered so.

    Where options have the same score, the question counts as the share of a guess among them.
    """
    import numpy as np

    if not whole.options:
        labelled: Array = ((scores > 0) == wrong).astype(float)
        return labelled
    best = np.minimum.reduceat(scores, whole.starts)[whole.owner]
    chosen = scores <= best
    shares = np.add.reduceat((chosen & ~wrong).astype(float), whole.starts)
    answered: Array = shares / np.add.reduceat(chosen.astype(float), whole.starts)
    return answered


def _weights(whole: _Set, wrong: "Array", counted: "Array") -> "Array":
    """The weight of each counted answer: both classes count half. Of questions: 1 each."""
    import numpy as np

    if whole.options:
        return np.ones(int(counted.sum()))
    labels = wrong[counted]
    sizes = np.array([max(1, int((~labels).sum())), max(1, int(labels.sum()))])
    weights: Array = len(labels) / 2 / sizes[labels.astype(int)]
    return weights


def _accuracy(whole: _Set, scores: "Array", wrong: "Array") -> float:
    import numpy as np

    hits = _hits(whole, scores, wrong)
    return float(np.average(hits, weights=_weights(whole, wrong, np.ones(len(hits), dtype=bool))))


def _f1(whole: _Set, scores: "Array", counted: "Array") -> float | None:
    if whole.options:
        return None
    said, wrong = scores[counted] > 0, whole.wrong[counted]
    total = int(said.sum() + wrong.sum())
    if total:
        return round(2 * int((said & wrong).sum()) / total, 4)
    return None


def _estimate(probe: Probe, whole: _Set, scores: "Array", counted: "Array") -> tuple[float, float]:
    """(accuracy, effective n) of the `counted` answers or questions (a mask)."""
    import numpy as np

    owners, hits = whole.counted[counted], _hits(whole, scores, whole.wrong)[counted]
    weights = _weights(whole, whole.wrong, counted)
    accuracy = float(np.average(hits, weights=weights))
    totals = whole.of_clusters(weights * (hits - accuracy), owners)
    clusters = len(np.unique(whole.cluster[owners]))
    variance = float((totals**2).sum()) / weights.sum() ** 2 * clusters / max(1, clusters - 1)
    if variance > 0:
        effective = accuracy * (1 - accuracy) / variance
    else:
        effective = float(clusters)
    inflation = 1.0
    if probe.learns:
        inflation = FOLDS_DEPEND
    return accuracy, max(1.0, min(float(len(hits)), float(effective)) / inflation)


def _interval(accuracy: float, effective: float, z: float) -> tuple[float, float]:
    hits = min(effective, max(0.0, accuracy * effective))
    return wilson(hits, effective, z)


def _result(probe: Probe, whole: _Set, scores: "Array", features: _Features, bound: float, seed: int) -> ProbeResult:
    import numpy as np

    everything = np.ones(len(whole.counted), dtype=bool)
    accuracy, effective = _estimate(probe, whole, scores, everything)
    low, high = _interval(accuracy, effective, Z95)
    low_of_all, _high = _interval(accuracy, effective, bound)
    generator = np.random.default_rng(seed)
    by_chance = []
    for _number in range(max(1, min(SHUFFLES, SHUFFLED_ANSWERS // len(whole.owner)))):
        labels = whole.shuffled(generator)
        by_chance.append(_accuracy(whole, features.scores(labels), labels))
    return ProbeResult(
        name=probe.name,
        accuracy=round(accuracy, 4),
        f1=_f1(whole, scores, everything),
        low=round(low, 4),
        high=round(high, 4),
        n=int(everything.sum()),
        shuffled=round(float(np.mean(by_chance)), 4),
        pairs=_preferred(whole, scores),
        tells=bool(low_of_all > whole.chance),
    )


def _preferred(whole: _Set, scores: "Array") -> float | None:
    """The share of pairs in which the wrong answer scores higher; a tie counts half."""
    import numpy as np

    if whole.options:
        return None
    scores_of: dict[int, list[tuple[bool, float]]] = defaultdict(list)
    for pair, wrong, score in zip(whole.pair.tolist(), whole.wrong.tolist(), scores.tolist(), strict=True):
        scores_of[pair].append((wrong, score))
    wins = []
    for pair, answers in scores_of.items():
        if pair >= 0 and len(answers) == 2:
            [(_right, right), (_wrong, wrong)] = sorted(answers)
            wins.append((wrong > right) + (wrong == right) / 2)
    if wins:
        return round(float(np.mean(wins)), 4)
    return None


def _groups(probe: Probe, whole: _Set, scores: "Array") -> list[GroupResult]:
    """The probe's figures by the facets of the cases; a facet with one value has none."""
    import numpy as np

    names = set[str]().union(*(case.labelled.facets for case in whole.cases))
    results = []
    for name in sorted(names):
        values = np.array([case.labelled.facets.get(name, "") for case in whole.cases])
        known = sorted(set(values.tolist()))
        if len(known) < 2:
            results.append(GroupResult(probe.name, name, known[0], len(whole.counted), reason=NoNumber("one-value")))
            continue
        for value in known:
            counted = (values == value)[whole.counted]
            n = int(counted.sum())
            if n < MIN_IN_GROUP:
                reason = NoNumber("small-group", {"n": n, "least": MIN_IN_GROUP})
                results.append(GroupResult(probe.name, name, value, n, reason=reason))
            elif not whole.options and _is_one_class(whole.wrong[counted]):
                results.append(GroupResult(probe.name, name, value, n, reason=NoNumber("one-class")))
            else:
                accuracy, effective = _estimate(probe, whole, scores, counted)
                low, high = _interval(accuracy, effective, Z95)
                f1 = _f1(whole, scores, counted)
                figures = (round(accuracy, 4), f1, round(low, 4), round(high, 4))
                results.append(GroupResult(probe.name, name, value, n, *figures))
    return results


def margins(whole: _Set, scores: "Array") -> "Array":
    """How clearly each case is told, (cases,): the least of its answers; below 0: wrongly."""
    import numpy as np

    if whole.options:
        right = scores[~whole.wrong]
        others = np.where(whole.wrong, scores, np.inf)
        options: Array = np.minimum.reduceat(others, whole.starts) - right
        return options
    answers: Array = np.minimum.reduceat(np.where(whole.wrong, scores, -scores), whole.starts)
    return answers


def word_margins(cases: Sequence[ProbeCase], seed: int) -> list[tuple[str, float]]:
    """(record, margin) of each case by its words, learned in other folds; countable cases only."""
    from threadpoolctl import threadpool_limits

    counted, _left_out = _countable(cases)
    [words] = [probe for probe in PROBES if probe.features == (catalogue.WORDS,)]
    with threadpool_limits(1):
        whole = _Set(counted, seed)
        found = margins(whole, _Features(words, whole).scores(whole.wrong)).tolist()
    return [(case.record, margin) for case, margin in zip(counted, found, strict=True)]


def why_not(cases: Sequence[ProbeCase]) -> NoNumber | None:
    """Why nothing can be told of these cases; None if something can."""
    counted, _left_out = _countable(cases)
    if not counted:
        return _too_few(0)
    return _reason_against(_Set(counted, 0))


def _telling_cases(whole: _Set, scores: "Array") -> tuple[TellingCase, ...]:
    import numpy as np

    found = margins(whole, scores)
    telling = []
    # So many of each split: held-out cases must not crowd out those that all may see.
    of_split: Counter[bool] = Counter()
    for place in np.argsort(-found, kind="stable").tolist():
        case = whole.cases[place]
        if found[place] > 0 and of_split[case.held_out] < TELLING_CASES:
            of_split[case.held_out] += 1
            telling.append(TellingCase(case.key, case.held_out, round(float(found[place]), 3)))
    return tuple(telling)
