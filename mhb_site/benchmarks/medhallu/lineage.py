"""What the data of drafts shows of how samples were made: of one draft all candidates, votes and scores; of a batch the shares.

Everything here is made when a page is read, so that titles and cells are in the reader's language. What models wrote is text.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from django.utils.translation import gettext as _

from mhb_site.benchmarks.medhallu.taxonomy import DIFFICULTIES, TERMS
from review.rules.blocks import Block, Point, Points, Table

RELIABLY = 0.5  # from this share on a cluster counts among those that fool


def lineage(data: Mapping[str, Any]) -> Sequence[Block]:
    """Candidates, votes, entailment, feedback, what was chosen and why; clusters where there are any."""
    made = _all_of(data)
    blocks: list[Block] = []
    if "final" in data:
        blocks.append(_chosen(data["final"]))
    if made:
        blocks += [_candidates(made), _answers(made), _votes(made)]
    if any(each.get("entailment") for each in made):
        blocks.append(_entailment(made))
    feedback = [each for tried in data.get("tries", ()) for each in tried["feedback"]]
    if feedback:
        columns = (_("Candidate"), _("Wording"), _("Structure"), _("Advice"))
        rows = tuple((each["of"], each["wording"], each["structure"], each["advice"]) for each in feedback)
        blocks.append(Table(_("Signs that gave candidates away"), columns, rows))
    broken = [(str(tried["number"]), tried["broken"]) for tried in data.get("tries", ()) if tried["broken"]]
    if broken:
        blocks.append(Table(_("Unusable replies"), (_("Try"), _("Problem")), tuple(broken)))
    near = data.get("final", {}).get("near", {})
    if near:
        cosines = tuple((number, f"{value:.3f}") for number, value in near.items())
        blocks.append(Table(_("Similarity to the true answer"), (_("Candidate"), _("Cosine similarity")), cosines))
    if "clusters" in data:
        blocks += _clusters_of(data["clusters"])
    return blocks


def _all_of(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Candidates, from the tries or still on their way to be clustered."""
    tried = [candidate for tried in data.get("tries", ()) for candidate in tried["candidates"]]
    return tried or list(data.get("made", ()))


def _chosen(final: Mapping[str, Any]) -> Table:
    rows = [
        (_("Difficulty"), _difficulty(final["difficulty"])),
        (_("Category"), f"{final['category']} {_category(final['category'])}".strip()),
    ]
    if final.get("published"):
        rows.append((_("Origin"), _("Published sample, used unchanged")))
    else:
        rows += [
            (_("Candidate"), final["number"]),
            (_("Tries"), str(final["tries"])),
            (
                _("Reason for selection"),
                _("most similar to the true answer, because no candidate qualified")
                if final["fallback"]
                else _("qualified"),
            ),
        ]
    if "length" in final.get("flags", ()):
        rows.append((_("Length"), _("outside the length limits, even after a second request")))
    return Table(_("Sample"), (_("Item"), _("Details")), tuple(rows))


def _candidates(made: Sequence[Mapping[str, Any]]) -> Table:
    ways = {
        "generate": _("generated"),
        "regenerate": _("regenerated from feedback"),
        "rewrite": _("rewritten by the critic"),
    }
    outside = _("outside the length limits")  # not within the f-string, where makemessages does not look
    rows = tuple(
        (
            each["number"],
            ways[each["by"]],
            "" if each["temperature"] is None else f"{each['temperature']:.2f}",
            each["category"],
            f"{each['words']} ({outside})" if "length" in each["flags"] else str(each["words"]),
            f"{each['fooled']} / {sum(not vote['broken'] for vote in each['votes'])}" if "fooled" in each else "",
            _verdict(each),
        )
        for each in made
    )
    columns = (_("Candidate"), _("Method"), _("Temperature"), _("Category"), _("Words"), _("Fooled"), _("Result"))
    return Table(_("Candidates"), columns, rows)


def _answers(made: Sequence[Mapping[str, Any]]) -> Table:
    """What was written, each candidate's words replaced for their length among it."""
    rows: list[tuple[str, str, str]] = []
    for each in made:
        rows += [(each["number"], text, _("replaced because of its length")) for text in each["replaced"]]
        rows.append((each["number"], each["answer"], each["justification"]))
    return Table(_("Candidate answers"), (_("Candidate"), _("Answer"), _("Justification")), tuple(rows))


def _verdict(candidate: Mapping[str, Any]) -> str:
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


def _voter(role: str) -> str:
    return {"voter_1": _("voter 1"), "voter_2": _("voter 2"), "voter_3": _("voter 3")}.get(role, role)


def _votes(made: Sequence[Mapping[str, Any]]) -> Table:
    first = {"truth": _("true answer"), "hallucinated": _("hallucinated answer")}
    rows = tuple(
        (
            each["number"],
            _voter(vote["role"]),
            first[vote["first"]],
            f"{vote['unread']}\n→ {vote['reply']}" if vote.get("unread") else vote["reply"],
            _("broken") if vote["broken"] else _("fooled") if vote["fooled"] else _("not fooled"),
        )
        for each in made
        for vote in each.get("votes", ())
    )
    return Table(_("Votes"), (_("Candidate"), _("Voter"), _("Shown first"), _("Reply"), _("Result")), rows)


def _entailment(made: Sequence[Mapping[str, Any]]) -> Table:
    rows = tuple(
        (each["number"], scores["by"], *(f"{scores[name]:.3f}" for name in ("forward", "backward", "least")))
        for each in made
        if (scores := each.get("entailment"))
    )
    columns = (
        _("Candidate"),
        _("Judged by"),
        _("Candidate entails true answer"),
        _("True answer entails candidate"),
        _("Minimum"),
    )
    return Table(_("Entailment"), columns, rows)


# -------------------------------------------------------------------------------------------------------------- clusters


def _fools(cluster: Mapping[str, Any]) -> bool:
    return bool(cluster["share"] >= RELIABLY)


def _clusters_of(found: Mapping[str, Any]) -> list[Block]:
    named = [(str(number), each) for number, each in enumerate(found["clusters"], 1)]
    rows = tuple(
        (
            name,
            _("yes") if each["truth"] else _("no"),
            ", ".join(each["members"]),
            *(
                (_percent(each["share"]), *(f"{each[measure]:.3f}" for measure in _measures()))
                if each["members"]
                else ("",) * 6
            ),
        )
        for name, each in named
    )
    columns = (_("Cluster"), _("Contains the true answer"), _("Candidates"), _("Fooling"), *_measures().values())
    return [Table(_("Clusters"), columns, rows), _picture([(name, each) for name, each in named if each["members"]])]


def _measures() -> dict[str, str]:
    return {
        "cosine": _("Cosine similarity"),
        "euclidean": _("Euclidean distance"),
        "rouge1": "ROUGE-1",
        "rouge2": "ROUGE-2",
        "rougeL": "ROUGE-L",
    }


def _picture(named: Sequence[tuple[str, Mapping[str, Any]]]) -> Points:
    return Points(
        _("Similarity of clusters to the true answer and share of their candidates that fool the voters"),
        _("Cosine similarity to the true answer"),
        _("Candidates that fool the voters (%)"),
        tuple(
            Point(
                each["cosine"],
                round(100 * each["share"], 1),
                label=name,
                size=float(len(each["members"])),
                group=_("fooling") if _fools(each) else _("not fooling"),
            )
            for name, each in named
        ),
    )


# ---------------------------------------------------------------------------------------------------------------- a batch


@dataclass(slots=True)
class _Seen:
    """What has been counted so far."""

    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)  # category, difficulty
    tries: Counter[str] = field(default_factory=Counter)
    votes: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # role, shown first, result
    candidates: Counter[str] = field(default_factory=Counter)
    clusters: list[Mapping[str, Any]] = field(default_factory=list)  # those with candidates
    clustered: int = 0  # drafts
    isolated: int = 0  # of them, those whose true answer stands alone

    def add(self, data: Mapping[str, Any]) -> None:
        final = data.get("final")
        if final:
            self.kinds[final["category"], final["difficulty"]] += 1
            if not final.get("published") and "clusters" not in data:
                self.tries["fallback" if final["fallback"] else str(final["tries"])] += 1
        for each in _all_of(data):
            self.candidates["all"] += 1
            self.candidates[each["by"]] += 1
            self.candidates["length"] += "length" in each["flags"]
            self.candidates["entailed"] += bool(each.get("entailed"))
            self.candidates["qualified"] += bool(each.get("qualified"))
            for vote in each.get("votes", ()):
                result = "broken" if vote["broken"] else "fooled" if vote["fooled"] else "not"
                self.votes[vote["role"], vote["first"], result] += 1
        if "clusters" in data:
            self.clustered += 1
            self.isolated += any(each["truth"] and not each["members"] for each in data["clusters"]["clusters"])
            kept = ("members", "share", *_measures())
            self.clusters += [
                {name: each[name] for name in kept} for each in data["clusters"]["clusters"] if each["members"]
            ]


def analysis(drafts: Iterable[Mapping[str, Any]]) -> Sequence[Block]:
    """Shares of difficulty, category, tries and fallback, what voters did; the paper's table of clusters, and its picture."""
    seen = _Seen()
    for data in drafts:
        seen.add(data)
    blocks: list[Block] = []
    if seen.kinds:
        blocks += [_difficulties(seen.kinds), _categories(seen.kinds)]
    if seen.tries:
        blocks.append(_tries(seen.tries))
    if seen.votes:
        blocks.append(_voters(seen.votes))
    if seen.candidates:
        blocks.append(_of_candidates(seen.candidates))
    if seen.clusters:
        blocks += [_of_clusters(seen.clusters), _findings(seen)]
        blocks.append(_picture([(str(number), each) for number, each in enumerate(seen.clusters, 1)]))
    return blocks


def _difficulties(kinds: Counter[tuple[str, str]]) -> Table:
    counts = Counter[str]()
    for (_category_code, level), count in kinds.items():
        counts[level] += count
    rows = tuple(
        (_difficulty(level), str(counts[level]), _share(counts[level], kinds.total())) for level in DIFFICULTIES
    )
    return Table(_("Difficulty"), (_("Difficulty"), _("Samples"), _("Share")), rows)


def _categories(kinds: Counter[tuple[str, str]]) -> Table:
    codes = [term.code for term in TERMS]
    codes += sorted({code for code, _level in kinds} - set(codes))
    rows = []
    for code in codes:
        levels = [kinds[code, level] for level in DIFFICULTIES]
        total = sum(levels)
        rows.append(
            (
                f"{code} {_category(code)}".strip(),
                *map(str, levels),
                str(total),
                _share(total, kinds.total()),
                _share(levels[-1], total),
            )
        )
    columns = (_("Category"), *map(_difficulty, DIFFICULTIES), _("Samples"), _("Share"), _("Share hard"))
    return Table(_("Categories"), columns, tuple(rows))


def _tries(tries: Counter[str]) -> Table:
    numbers = sorted(number for number in tries if number != "fallback")
    named = [(number, number) for number in numbers] + [(_("none (fallback used)"), "fallback")]
    rows = tuple((label, str(tries[key]), _share(tries[key], tries.total())) for label, key in named)
    return Table(_("Qualifying try"), (_("Try"), _("Samples"), _("Share")), rows)


def _voters(votes: Counter[tuple[str, str, str]]) -> Table:
    def counted(role: str, first: str, result: str = "") -> int:
        return sum(n for key, n in votes.items() if key[0] == role and key[1] == first and result in ("", key[2]))

    rows = []
    for role in sorted({role for role, _first, _result in votes}):
        truth, hallucinated = counted(role, "truth"), counted(role, "hallucinated")
        fooled = counted(role, "truth", "fooled"), counted(role, "hallucinated", "fooled")
        broken = counted(role, "truth", "broken"), counted(role, "hallucinated", "broken")
        read = truth - broken[0], hallucinated - broken[1]
        rows.append(
            (
                _voter(role),
                str(truth + hallucinated),
                _share(sum(fooled), sum(read)),
                _share(fooled[0], read[0]),
                _share(fooled[1], read[1]),
                str(sum(broken)),
            )
        )
    columns = (
        _("Voter"),
        _("Votes"),
        _("Fooled"),
        _("Fooled (true answer first)"),
        _("Fooled (hallucinated answer first)"),
        _("Broken"),
    )
    return Table(_("Voters"), columns, tuple(rows))


def _of_candidates(counts: Counter[str]) -> Table:
    named = (
        (_("All"), "all"),
        (_("Generated"), "generate"),
        (_("Regenerated from feedback"), "regenerate"),
        (_("Rewritten by the critic"), "rewrite"),
        (_("Qualified"), "qualified"),
        (_("Same meaning as the true answer"), "entailed"),
        (_("Outside the length limits"), "length"),
    )
    rows = tuple((label, str(counts[key]), _share(counts[key], counts["all"])) for label, key in named)
    return Table(_("Candidates"), (_("Details"), _("Candidates"), _("Share")), rows)


def _of_clusters(clusters: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for label, fooling in ((_("Fooling"), True), (_("Not fooling"), False)):
        chosen = [each for each in clusters if _fools(each) is fooling]
        means = [f"{fmean(each[name] for each in chosen):.3f}" if chosen else "–" for name in _measures()]
        rows.append((label, str(len(chosen)), str(sum(len(each["members"]) for each in chosen)), *means))
    columns = (_("Clusters"), _("Number"), _("Candidates"), *_measures().values())
    title = _(
        "Clusters by whether at least half of their candidates fool the voters: mean similarity and "
        "distance to the true answer"
    )
    return Table(title, columns, tuple(rows))


def _findings(seen: _Seen) -> Table:
    several = [each for each in seen.clusters if len(each["members"]) > 1]
    uniform = sum(each["share"] in (0, 1) for each in several)
    rows = (
        (
            _("Clusters of several candidates in which all or none fool the voters"),
            str(uniform),
            _share(uniform, len(several)),
        ),
        (
            _("Questions whose true answer is not in any candidate cluster"),
            str(seen.isolated),
            _share(seen.isolated, seen.clustered),
        ),
    )
    return Table(_("Uniform clusters and isolated true answers"), (_("Item"), _("Number"), _("Share")), rows)


def _share(part: int, whole: int) -> str:
    return _percent(part / whole) if whole else "–"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _difficulty(level: str) -> str:
    return {"easy": _("easy"), "medium": _("medium"), "hard": _("hard")}.get(level, level)


def _category(code: str) -> str:
    """The label in the reader's language: an admin's own term, and a code that is gone, by the code alone."""
    label = next((term.label for term in TERMS if term.code == code), "")
    return _(label) if label else ""
