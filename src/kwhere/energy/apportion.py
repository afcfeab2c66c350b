"""Sharing an integer out so that nothing is lost: largest remainders."""

from collections.abc import Sequence


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Return shares of `total` (0 or more) in proportion to `weights`; they sum to `total` exactly.

    Each share is within 1 of its exact quota; a weight of 0 gets 0; ties go to the earlier weight, so callers keep
    weights in the order of unit keys. Raises ValueError where there is something to share and all weights are 0.
    """
    if total == 0:
        return [0] * len(weights)
    whole = sum(weights)
    if whole <= 0 or total < 0 or min(weights) < 0:
        raise ValueError(f"apportion: expected a total and weights of 0 or more, found {total} over a sum of {whole}")
    products = [total * weight for weight in weights]
    shares = [product // whole for product in products]
    left = total - sum(shares)
    if left:
        remainders = [product % whole for product in products]
        for index in sorted(range(len(weights)), key=remainders.__getitem__, reverse=True)[:left]:
            shares[index] += 1
    return shares
