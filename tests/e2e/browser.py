"""A browser for tests of pages: how wide and how dark it is, what it may not say, how text has to stand out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from kwhere.web.static_files import Assets

PICTURES = Path(__file__).parents[2] / ".cache" / "screenshots"
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]
MODES: dict[str, dict[str, object]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "is_mobile": True},
    "no-script": {"viewport": {"width": 1280, "height": 900}, "java_script_enabled": False},
}
TEXT = ("h1", "h2", ".nav a", ".value", ".label", ".legend li", "th", "td", ".soft", ".fact", "footer span", ".badge")
"""What has to be read: a contrast of 4.5 at least."""


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start the system's Chromium; skips where the pages' assets are not built."""
    if not Assets().are_built:
        pytest.skip("needs the service npm: npm ci && npm run build")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield browser
        browser.close()


def visit(context: BrowserContext, url: str) -> tuple[Page, list[str]]:
    """Open a page and wait for its charts; the list fills with whatever goes wrong on it."""
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("response", lambda answer: faults.append(answer.url) if answer.status >= 400 else None)
    page.goto(url)
    if page.evaluate("document.documentElement.classList.contains('js')"):
        page.wait_for_function(
            "document.querySelectorAll('.uplot').length === document.querySelectorAll('figure[data-chart]').length"
        )
    return page, faults


def text_faults(page: Page) -> list[str]:
    """Return the texts that do not stand out from their ground."""
    found: list[str] = page.evaluate(CONTRAST, list(TEXT))
    return found


CONTRAST = """
(selectors) => {
  const parse = (text) => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const pen = canvas.getContext("2d");
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const faint = [];
  for (const selector of selectors) {
    for (const element of [...document.querySelectorAll(selector)].slice(0, 6)) {
      if (!element.textContent.trim() || !element.offsetParent) continue;
      const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < 4.5) faint.push(`${selector} "${element.textContent.trim().slice(0, 30)}" ${ratio.toFixed(2)}`);
    }
  }
  return faint;
}
"""
