"""Numbers and durations as a person reads them."""

from __future__ import annotations

import math


def number(value: float) -> str:
    """About four significant digits in at most eight characters: 231.4, 0.0123, -1.2e-05, 1.23M."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 99_999.5:
        return compact(value)
    if size >= 9_999.5:
        return f"{value:.0f}"
    if value == 0 or size >= 1e-3:
        text = f"{value:.4g}"
        return text if len(text) <= 8 else f"{value:.3g}"
    return f"{value:.1e}"


def compact(value: float) -> str:
    """Three significant digits with a unit: 950, 1.23k, 118k, 5M."""
    if not math.isfinite(value):
        return str(value)
    for limit, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        # From 999.5 on, three digits round up into the next unit.
        if abs(value) >= limit * 0.9995:
            return f"{value / limit:.3g}{unit}" if abs(value) < 999.5 * limit else f"{value:.2e}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """42s, 12m 31s, 3h 05m, 2d 03h; unknown where it is not finite."""
    if not math.isfinite(seconds):
        return "unknown"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02d}h"
