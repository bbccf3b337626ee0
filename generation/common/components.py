"""What belongs together because it has something in common, directly or through others."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def components(edges: "Array", count: int) -> "Array":
    """The connected component of each of `count` nodes, (count,), numbered from 0.

    `edges`: (n, 2) pairs of nodes that have something in common.
    """
    import numpy as np
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(edges), dtype=bool), edges.T), shape=(count, count))
    _number, labels = connected_components(graph, directed=False)
    found: Array = labels
    return found
