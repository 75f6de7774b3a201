"""Sets of closed integer intervals, as lists of (start, end) pairs."""


def merge(intervals):
    """Joins intervals that overlap or touch; the result is sorted."""
    merged = []
    for start, end in intervals:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def total(intervals):
    """How many integers the intervals hold, each counted once."""
    return sum(end - start for start, end in merge(intervals))
