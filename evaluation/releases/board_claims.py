"""What the newest run of a leaderboard says of its benchmark."""

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
        scores = self.claims.policies if self.claims.rate.name == board.rate.name else ()
        by_policy: dict[str, dict[str, MeasuredRate]] = {}
        for each in scores:
            by_policy.setdefault(each.policy, {})[each.dataset] = each.measured
        names = [name for name, _label in board.datasets]
        return [(policy, [of_policy.get(name) for name in names]) for policy, of_policy in by_policy.items()]


def board_claims(board: Leaderboard) -> BoardClaims | None:
    """The claims beside a leaderboard; None without a run. Asks no model."""
    complete = {entry.run for entry in board.entries if entry.coverage is None}
    runs = Run.objects.filter(pk__in=complete).select_related("release", "judge")
    newest_first = sorted(runs, key=lambda run: (bool(run.policies), run.pk), reverse=True)
    if not newest_first:
        return None
    run = newest_first[0]
    return BoardClaims(run.pk, claims_of_run(run))
