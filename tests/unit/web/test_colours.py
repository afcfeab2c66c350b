"""Colours of bars, swatches and charts stand out from their ground, in light and in dark."""

import re
from pathlib import Path

import pytest

import kwhere.web

TOKENS = Path(kwhere.web.__file__).parent / "assets" / "tokens.css"
SHAPES = ("cpu", "dram", "gpu", "other", "system", "unallocated", "accent", "good", "warn", "bad")


def palettes() -> dict[str, dict[str, str]]:
    light, _, dark = TOKENS.read_text().partition("@media (prefers-color-scheme: dark)")
    found = {
        mode: dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", text))
        for mode, text in (("light", light), ("dark", dark))
    }
    return {"light": found["light"], "dark": found["light"] | found["dark"]}


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_seen_on_its_panel(mode: str, name: str) -> None:
    """WCAG 2.1, 1.4.11 asks for 3:1; the safe yellow of GPUs falls short on white: a word stands beside it."""
    palette = palettes()[mode]
    least = 2.2 if (mode, name) == ("light", "gpu") else 3.0

    assert contrast(palette[name], palette["surface"]) >= least


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_track_of_a_bar_is_seen_and_its_filling_stands_out(mode: str) -> None:
    palette = palettes()[mode]

    assert contrast(palette["track"], palette["surface"]) >= 1.2
    assert all(contrast(palette[name], palette["track"]) >= 1.7 for name in SHAPES)
