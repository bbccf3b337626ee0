"""How samples were made: all candidates, votes and scores of a draft, and the shares in a batch.

Blocks are built when a page is read, so that titles and cells are in the reader's language. Models'
own words are shown as they are.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from mhb_site.benchmarks.medhallu.candidates import all_of
from mhb_site.benchmarks.medhallu.taxonomy import DIFFICULTIES, TERMS
from review.rules.blocks import Block, Point, Points, Table, format_percent, share_table

FOOLING_SHARE = 0.5  # the least share of fooling candidates that makes a cluster a fooling one


RESULTS = {"broken": gettext_noop("broken"), "fooled": gettext_noop("fooled"), "not": gettext_noop("not fooled")}


def result_of(vote: Mapping[str, Any]) -> str:
    """The key in RESULTS of what a vote says."""
    if vote["broken"]:
        return "broken"
    if vote["fooled"]:
        return "fooled"
    return "not"


def lineage(data: Mapping[str, Any]) -> Sequence[Block]:
    """Blocks with candidates, votes, entailment, feedback and clusters, and the choice."""
    candidates = _all_candidates(data)
    blocks: list[Block] = []
    if "final" in data:
        blocks.append(_sample_table(data["final"]))
    if candidates:
        blocks += [_candidate_table(candidates), _answer_table(candidates), _vote_table(candidates)]
    entailment = _entailment_table(candidates)
    if entailment.rows:
        blocks.append(entailment)
    blocks += _try_tables(data.get("tries", ()))
    similarities = data.get("final", {}).get("near", {})
    if similarities:
        cosines = tuple((number, f"{value:.3f}") for number, value in similarities.items())
        blocks.append(Table(_("Similarity to the true answer"), (_("Candidate"), _("Cosine similarity")), cosines))
    if "clusters" in data:
        blocks += _cluster_blocks(data["clusters"])
    return blocks


def _all_candidates(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The candidates of all tries, or those not clustered yet."""
    return all_of(data) or list(data.get("made", ()))


def _sample_table(final: Mapping[str, Any]) -> Table:
    reason = _("qualified")
    if final.get("fallback"):
        reason = _("most similar to the true answer, because no candidate qualified")
    rows = [
        (_("Difficulty"), _difficulty_label(final["difficulty"])),
        (_("Category"), f"{final['category']} {_category_label(final['category'])}".strip()),
    ]
    if final.get("published"):
        rows.append((_("Origin"), _("Published sample, used unchanged")))
    else:
        rows += [
            (_("Candidate"), final["number"]),
            (_("Tries"), str(final["tries"])),
            (_("Reason for selection"), reason),
        ]
    if "length" in final.get("flags", ()):
        rows.append((_("Length"), _("outside the length limits, even after a second request")))
    return Table(_("Sample"), (_("Item"), _("Details")), tuple(rows))


def _try_tables(tries: Sequence[Mapping[str, Any]]) -> list[Table]:
    """The feedback and the unusable replies of the tries, where there are any."""
    feedback, broken = [], []
    for attempt in tries:
        for entry in attempt["feedback"]:
            feedback.append((entry["of"], entry["wording"], entry["structure"], entry["advice"]))
        if attempt["broken"]:
            broken.append((str(attempt["number"]), attempt["broken"]))
    tables = []
    if feedback:
        columns = (_("Candidate"), _("Wording"), _("Structure"), _("Advice"))
        tables.append(Table(_("Signs that gave candidates away"), columns, tuple(feedback)))
    if broken:
        tables.append(Table(_("Unusable replies"), (_("Try"), _("Problem")), tuple(broken)))
    return tables


def _candidate_table(candidates: Sequence[Mapping[str, Any]]) -> Table:
    columns = (_("Candidate"), _("Method"), _("Temperature"), _("Category"), _("Words"), _("Fooled"), _("Result"))
    rows = [_candidate_row(candidate) for candidate in candidates]
    return Table(_("Candidates"), columns, tuple(rows))


def _candidate_row(candidate: Mapping[str, Any]) -> tuple[str, ...]:
    methods = {
        "generate": _("generated"),
        "regenerate": _("regenerated from feedback"),
        "rewrite": _("rewritten by the critic"),
    }
    temperature, length, fooled = "", str(candidate["words"]), ""
    if candidate["temperature"] is not None:
        temperature = f"{candidate['temperature']:.2f}"
    if "length" in candidate["flags"]:
        outside = _("outside the length limits")  # not in the f-string: makemessages does not look there
        length = f"{length} ({outside})"
    if "fooled" in candidate:
        readable = sum(not vote["broken"] for vote in candidate.get("votes", ()))
        fooled = f"{candidate['fooled']} / {readable}"
    method, category = methods[candidate["by"]], candidate["category"]
    return candidate["number"], method, temperature, category, length, fooled, _result_label(candidate)


def _answer_table(candidates: Sequence[Mapping[str, Any]]) -> Table:
    """The answers, including those replaced because of their length."""
    rows: list[tuple[str, str, str]] = []
    for candidate in candidates:
        for text in candidate["replaced"]:
            rows.append((candidate["number"], text, _("replaced because of its length")))
        rows.append((candidate["number"], candidate["answer"], candidate["justification"]))
    return Table(_("Candidate answers"), (_("Candidate"), _("Answer"), _("Justification")), tuple(rows))


def _result_label(candidate: Mapping[str, Any]) -> str:
    if "qualified" not in candidate:
        return ""
    if candidate["qualified"]:
        return _("qualified")
    if any(vote["broken"] for vote in candidate["votes"]):
        return _("unreadable vote")
    if candidate["entailed"]:
        return _("same meaning as the true answer")
    if candidate["entailed"] is None:
        return _("entailment could not be judged")
    return _("fooled too few voters")


def _voter_label(role: str) -> str:
    return {"voter_1": _("voter 1"), "voter_2": _("voter 2"), "voter_3": _("voter 3")}.get(role, role)


def _vote_table(candidates: Sequence[Mapping[str, Any]]) -> Table:
    first_labels = {"truth": _("true answer"), "hallucinated": _("hallucinated answer")}
    rows = []
    for candidate in candidates:
        for vote in candidate.get("votes", ()):
            reply = vote["reply"]
            if vote.get("unread"):
                reply = f"{vote['unread']}\n→ {reply}"
            voter, first = _voter_label(vote["role"]), first_labels[vote["first"]]
            rows.append((candidate["number"], voter, first, reply, _(RESULTS[result_of(vote)])))
    return Table(_("Votes"), (_("Candidate"), _("Voter"), _("Shown first"), _("Reply"), _("Result")), tuple(rows))


def _entailment_table(candidates: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for candidate in candidates:
        scores = candidate.get("entailment")
        if scores:
            shares = (f"{scores[way]:.3f}" for way in ("forward", "backward", "least"))
            rows.append((candidate["number"], scores["by"], *shares))
    ways = _("Candidate entails true answer"), _("True answer entails candidate"), _("Minimum")
    return Table(_("Entailment"), (_("Candidate"), _("Judged by"), *ways), tuple(rows))


# ----------------------------------------------------------------------------------------- clusters


def _is_fooling(cluster: Mapping[str, Any]) -> bool:
    return bool(cluster["share"] >= FOOLING_SHARE)


def _cluster_blocks(data: Mapping[str, Any]) -> list[Block]:
    rows: list[tuple[str, ...]] = []
    plotted: list[tuple[str, Mapping[str, Any]]] = []
    for number, cluster in enumerate(data["clusters"], 1):
        name = str(number)
        numbers = [""] * (1 + len(_measure_labels()))
        if cluster["members"]:
            plotted.append((name, cluster))
            numbers = [f"{100 * cluster['share']:.1f} %"]
            for measure in _measure_labels():
                value = ""
                if measure in cluster:
                    value = f"{cluster[measure]:.3f}"
                numbers.append(value)
        has_truth = _("no")
        if cluster["truth"]:
            has_truth = _("yes")
        rows.append((name, has_truth, ", ".join(cluster["members"]), *numbers))
    columns = (_("Cluster"), _("Contains the true answer"), _("Candidates"), _("Fooling"), *_measure_labels().values())
    return [Table(_("Clusters"), columns, tuple(rows)), _cluster_plot(plotted)]


def _measure_labels() -> dict[str, str]:
    return {
        "cosine": _("Cosine similarity"),
        "euclidean": _("Euclidean distance"),
        "rouge1": "ROUGE-1",
        "rouge2": "ROUGE-2",
        "rougeL": "ROUGE-L",
        "rouge1_words": _("ROUGE-1, medical words"),
        "rouge2_words": _("ROUGE-2, medical words"),
        "rougeL_words": _("ROUGE-L, medical words"),
    }


def _cluster_plot(numbered: Sequence[tuple[str, Mapping[str, Any]]]) -> Points:
    points = []
    for name, cluster in numbered:
        share, size, group = round(100 * cluster["share"], 1), float(len(cluster["members"])), _("not fooling")
        if _is_fooling(cluster):
            group = _("fooling")
        points.append(Point(cluster["cosine"], share, label=name, size=size, group=group))
    return Points(
        _("Similarity of clusters to the true answer and share of their candidates that fool the voters"),
        _("Cosine similarity to the true answer"),
        _("Candidates that fool the voters (%)"),
        tuple(points),
    )


# ------------------------------------------------------------------------------------------ a batch


@dataclass(slots=True)
class _BatchCounts:
    """Counts over the drafts of a batch."""

    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)  # category, difficulty
    tries: Counter[str] = field(default_factory=Counter)
    fallbacks: int = 0  # samples of which no try qualified
    votes: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # role, shown first, result
    candidates: Counter[str] = field(default_factory=Counter)
    clusters: list[Mapping[str, Any]] = field(default_factory=list)  # those with candidates
    clustered: int = 0  # clustered drafts
    isolated: int = 0  # clustered drafts whose true answer is in no candidate cluster

    def add(self, data: Mapping[str, Any]) -> None:
        final = data.get("final")
        if final:
            self.kinds[final["category"], final["difficulty"]] += 1
            if not final.get("published") and "clusters" not in data:
                if final["fallback"]:
                    self.fallbacks += 1
                else:
                    self.tries[str(final["tries"])] += 1
        for candidate in _all_candidates(data):
            self.candidates["all"] += 1
            self.candidates[candidate["by"]] += 1
            self.candidates["length"] += "length" in candidate["flags"]
            self.candidates["entailed"] += bool(candidate.get("entailed"))
            self.candidates["qualified"] += bool(candidate.get("qualified"))
            for vote in candidate.get("votes", ()):
                self.votes[vote["role"], vote["first"], result_of(vote)] += 1
        if "clusters" in data:
            self.clustered += 1
            fields = ("members", "share", *_measure_labels())
            truth_is_isolated = False
            for cluster in data["clusters"]["clusters"]:
                if cluster["members"]:
                    self.clusters.append({name: cluster[name] for name in fields if name in cluster})
                elif cluster["truth"]:
                    truth_is_isolated = True
            self.isolated += truth_is_isolated


def analysis(drafts: Iterable[Mapping[str, Any]]) -> Sequence[Block]:
    """Blocks with shares of difficulty, category, tries and fallback, with votes and clusters."""
    counts = _BatchCounts()
    for data in drafts:
        counts.add(data)
    blocks: list[Block] = []
    if counts.kinds:
        by_level: Counter[str] = Counter()
        for (_category, level), n in counts.kinds.items():
            by_level[level] += n
        levels = [(_difficulty_label(level), by_level[level]) for level in DIFFICULTIES]
        columns = (_("Difficulty"), _("Samples"), _("Share"))
        blocks.append(share_table(_("Difficulty"), columns, levels, counts.kinds.total()))
        blocks.append(_category_table(counts.kinds))
    samples = counts.tries.total() + counts.fallbacks
    if samples:
        tries = [*sorted(counts.tries.items()), (_("none (fallback used)"), counts.fallbacks)]
        columns = (_("Try"), _("Samples"), _("Share"))
        blocks.append(share_table(_("Qualifying try"), columns, tries, samples))
    if counts.votes:
        blocks.append(_voter_table(counts.votes))
    if counts.candidates:
        blocks.append(_candidate_summary(counts.candidates))
    if counts.clusters:
        blocks += [_cluster_summary(counts.clusters), _uniformity_table(counts)]
        blocks.append(_cluster_plot([(str(number), cluster) for number, cluster in enumerate(counts.clusters, 1)]))
    return blocks


def _category_table(kinds: Counter[tuple[str, str]]) -> Table:
    codes = [term.code for term in TERMS]
    codes += sorted({code for code, _level in kinds} - set(codes))
    rows = []
    for code in codes:
        levels = [kinds[code, level] for level in DIFFICULTIES]
        total = sum(levels)
        shares = format_percent(total, kinds.total()), format_percent(levels[-1], total)
        rows.append((f"{code} {_category_label(code)}".strip(), *map(str, levels), str(total), *shares))
    columns = (_("Category"), *map(_difficulty_label, DIFFICULTIES), _("Samples"), _("Share"), _("Share hard"))
    return Table(_("Categories"), columns, tuple(rows))


def _voter_table(votes: Counter[tuple[str, str, str]]) -> Table:
    columns = (
        _("Voter"),
        _("Votes"),
        _("Fooled"),
        _("Fooled (true answer first)"),
        _("Fooled (hallucinated answer first)"),
        _("Broken"),
    )
    rows = []
    for role in sorted({role for role, _first, _result in votes}):
        fooled, readable, broken, by_first = 0, 0, 0, []
        for first in ("truth", "hallucinated"):
            fooled_here = votes[role, first, "fooled"]
            readable_here = fooled_here + votes[role, first, "not"]
            by_first.append(format_percent(fooled_here, readable_here))
            fooled += fooled_here
            readable += readable_here
            broken += votes[role, first, "broken"]
        of_all = format_percent(fooled, readable)
        rows.append((_voter_label(role), str(readable + broken), of_all, *by_first, str(broken)))
    return Table(_("Voters"), columns, tuple(rows))


def _candidate_summary(counts: Counter[str]) -> Table:
    labelled = (
        (_("All"), counts["all"]),
        (_("Generated"), counts["generate"]),
        (_("Regenerated from feedback"), counts["regenerate"]),
        (_("Rewritten by the critic"), counts["rewrite"]),
        (_("Qualified"), counts["qualified"]),
        (_("Same meaning as the true answer"), counts["entailed"]),
        (_("Outside the length limits"), counts["length"]),
    )
    return share_table(_("Candidates"), (_("Details"), _("Candidates"), _("Share")), labelled, counts["all"])


def _cluster_summary(clusters: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for label, fooling in ((_("Fooling"), True), (_("Not fooling"), False)):
        group = [cluster for cluster in clusters if _is_fooling(cluster) is fooling]
        means = []
        for name in _measure_labels():
            measured = [cluster[name] for cluster in group if name in cluster]
            means.append(f"{fmean(measured):.3f}" if measured else "–")
        candidates = sum(len(cluster["members"]) for cluster in group)
        rows.append((label, str(len(group)), str(candidates), *means))
    columns = (_("Clusters"), _("Number"), _("Candidates"), *_measure_labels().values())
    title = _(
        "Clusters by whether at least half of their candidates fool the voters: mean similarity and "
        "distance to the true answer"
    )
    return Table(title, columns, tuple(rows))


def _uniformity_table(counts: _BatchCounts) -> Table:
    large = [cluster for cluster in counts.clusters if len(cluster["members"]) > 1]
    uniform = sum(cluster["share"] in (0, 1) for cluster in large)
    shares = (
        (_("Clusters of several candidates in which all or none fool the voters"), uniform, len(large)),
        (_("Questions whose true answer is not in any candidate cluster"), counts.isolated, counts.clustered),
    )
    rows = tuple((label, str(part), format_percent(part, whole)) for label, part, whole in shares)
    return Table(_("Uniform clusters and isolated true answers"), (_("Item"), _("Number"), _("Share")), rows)


def _difficulty_label(level: str) -> str:
    return {"easy": _("easy"), "medium": _("medium"), "hard": _("hard")}.get(level, level)


def _category_label(code: str) -> str:
    """The category's label in the reader's language; '' for terms of an admin and removed ones."""
    for term in TERMS:
        if term.code == code and term.label:
            return _(term.label)
    return ""
