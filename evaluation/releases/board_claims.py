"""What the newest run of a leaderboard says of its benchmark."""

from collections import defaultdict
from dataclasses import dataclass

from evaluation.claims.claims import Claims
from evaluation.claims.queries import claims_of_run
from evaluation.metrics import MeasuredRate
from evaluation.models import Run
from evaluation.releases.leaderboard import Leaderboard


@dataclass(frozen=True, slots=True)
class BoardClaims:
    """The claims of the newest run of a leaderboard, of those with fixed texts if there are any."""

    run: int
    claims: Claims

    def standings(self, board: Leaderboard) -> list[tuple[str, list[MeasuredRate | None]]]:
        """Each fixed text with its rates on the data sets; empty if it was scored by another."""
        if self.claims.rate.name != board.rate.name:
            return []
        by_policy: dict[str, dict[str, MeasuredRate]] = defaultdict(dict)
        for score in self.claims.policies:
            by_policy[score.policy][score.dataset] = score.measured
        standings = []
        for policy, of_policy in by_policy.items():
            standings.append((policy, [of_policy.get(name) for name in dict(board.datasets)]))
        return standings


def board_claims(board: Leaderboard) -> BoardClaims | None:
    """The claims beside a leaderboard; None without a run. Asks no model."""
    complete = {entry.run for entry in board.entries if entry.coverage is None}
    runs = Run.objects.filter(pk__in=complete).select_related("release", "judge")
    run = max(runs, key=lambda run: (bool(run.policies), run.pk), default=None)
    if run is None:
        return None
    return BoardClaims(run.pk, claims_of_run(run))
