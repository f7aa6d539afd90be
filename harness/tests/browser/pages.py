"""Opens the HTML pages of runs in headless Chromium and holds what it shows against run.json.

    pages.py HTML_DIR RESULTS_DIR [--page NAME]... [--chromium PATH]

At two widths and in both colour schemes: nothing is wider than the window, nothing is logged or requested, plots have been
drawn, letters can be told from what they stand on, and every number is the one in the record that its element names, within
the digits shown. Exit codes: 0 as it should be, 1 something is not, 2 it could not be tried.

Needs `playwright` (pip) and a Chromium. Not here: whether the record is right; that is the auditor's.
"""

import argparse
import json
import math
import pathlib
import re
import sys

WIDTHS = (400, 1280)
SCHEMES = ("light", "dark")
# A session of fifty turns has hundreds of figures; so few would mean that they are not found.
FIGURES_MIN = 100
# WCAG 2.2 AA of letters, and of parts of pictures.
CONTRAST_MIN = 4.5
CONTRAST_PLOT_MIN = 3.0

FIGURES = """() => [...document.querySelectorAll('[data-value]')].map(it => ({
  field: it.dataset.field, envelope: it.dataset.envelope, derived: it.dataset.derived, value: it.dataset.value,
  style: it.dataset.style, run: it.closest('[data-run]')?.dataset.run, text: it.textContent,
}))"""

LAYOUT = """() => ({
  scroll: document.documentElement.scrollWidth, client: document.documentElement.clientWidth,
  wide: [...document.querySelectorAll('body *')].filter(it => !it.closest('.scroll, svg, .skip')
    && it.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).map(it => it.outerHTML.slice(0, 120)),
  plots: [...document.querySelectorAll('svg')].map(it => ({
    shapes: it.querySelectorAll('path, rect, polyline, polygon, circle, line').length, texts: it.querySelectorAll('text').length,
    width: it.getBoundingClientRect().width, height: it.getBoundingClientRect().height,
    role: it.getAttribute('role'), said: it.getAttribute('aria-label') || '',
    letters: Math.min(...[...it.querySelectorAll('text')].map(t => t.getBoundingClientRect().height)),
  })),
  tables: [...document.querySelectorAll('table')].map(it => ({
    caption: !!it.caption && it.caption.textContent.trim() !== '', scrolls: !!it.closest('.scroll[tabindex][aria-label]'),
    heads: [...it.querySelectorAll('th')].every(th => th.scope === 'col' || th.scope === 'row'),
    rows: [...it.tBodies[0].rows].every(row => row.cells.length === it.tHead.rows[0].cells.length && row.cells[0].tagName === 'TH'),
  })),
  ids: [...document.querySelectorAll('[id]')].map(it => it.id),
  links: [...document.querySelectorAll('a[href]')].map(it => it.getAttribute('href')),
  lang: document.documentElement.lang, title: document.title, headings: document.querySelectorAll('h1').length,
})"""

# Letters on what is behind them, and the ink of plots on their paper, as [what, colour, background].
COLOURS = """() => {
  const behind = it => { for (; it; it = it.parentElement) {
    const colour = getComputedStyle(it).backgroundColor;
    if (!/rgba\\(.*, 0\\)|transparent/.test(colour)) return colour; } return 'rgb(255, 255, 255)'; };
  const of = (selector, what) => [...document.querySelectorAll(selector)].slice(0, 40).map(it =>
    [what, getComputedStyle(it)[what === 'plot' ? 'stroke' : what === 'letter' ? 'fill' : 'color'], behind(it)]);
  return [...of('p, h1, h2, th, td, caption, figcaption, a, code', 'text'), ...of('svg text', 'letter'),
    ...of('svg polyline[stroke-width=\\"2\\"]', 'plot')];
}"""


class Evidence:
    """Records of runs, read once."""

    def __init__(self, results):
        self.results, self.read = results, {}

    def of(self, run, name):
        path = self.results / run / name
        if path not in self.read:
            self.read[path] = json.loads(path.read_text(encoding="utf-8"))
        return self.read[path]


def steps(place):
    """A place as keys: names, numbers in brackets, quoted names in brackets, `*` for every entry."""
    found, rest = [], place
    while rest:
        quoted = re.match(r'\[("(?:[^"\\]|\\.)*")\]', rest)
        match = quoted or re.match(r"\[(\d+|\*)\]", rest) or re.match(r"\.?([^.\[\]]+)", rest)
        if not match:
            raise ValueError(f"{place!r} is no place")
        key = match.group(1)
        found.append(json.loads(key) if quoted else int(key) if key.isdigit() and rest[0] == "[" else key)
        rest = rest[match.end() :]
    return found


def values(root, place):
    found = [root]
    for key in steps(place):
        if key == "*":
            found = [entry for it in found if isinstance(it, list) for entry in it]
        else:
            found = [it[key] for it in found if (key in it if isinstance(it, dict) else isinstance(it, list) and key < len(it))]
    return found


def derive(root, rule):
    name, *places = rule.split(" ")
    inputs = [[it for it in values(root, place) if isinstance(it, (int, float))] for place in places]
    every = [it for numbers in inputs for it in numbers]
    match name:
        case "difference":
            return inputs[0][0] - inputs[1][0]
        case "share":
            return (inputs[0][0] - inputs[1][0]) / (inputs[2][0] - inputs[3][0])
        case "least":
            return min(every)
        case "greatest":
            return max(every)
        case "number":
            return len(every)
    raise ValueError(f"{rule!r} is no arithmetic of these pages")


UNITS = {
    "µs": 1e3, "ms": 1e6, "s": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "%": 0.01, "×": 1.0, "tok/s": 1.0,
}


def shown_as(text, style, value):
    """Why the text is not this value within the digits shown; None if it is."""
    if style in ("text", "short"):
        expected = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
        same = text == expected if style == "text" else len(text) >= 8 and str(expected).startswith(text)
        return None if same else f"shows {text!r} of {expected!r}"
    if style == "count":
        return None if re.fullmatch(r"\d{1,3}( \d{3})*", text) and int(text.replace(" ", "")) == value else f"shows {text}"
    if style == "date":
        days = value // 86400
        import datetime

        expected = (datetime.date(1970, 1, 1) + datetime.timedelta(days=days)).isoformat()
        return None if text == expected else f"shows {text}, the day is {expected}"
    sign = -1.0 if text.startswith("\u2212") else 1.0
    body = text.removeprefix("\u2212")
    if minutes := re.fullmatch(r"(\d+) min (\d\d) s", body):
        number, half = (int(minutes[1]) * 60 + int(minutes[2]) + 0.5) * 1e9, 0.5000001e9
    elif parts := re.fullmatch(r"(\d+(?:\.(\d+))?) ?(µs|ms|s|KiB|MiB|GiB|%|×|tok/s)", body):
        unit = UNITS[parts[3]]
        number, half = float(parts[1]) * unit, 0.5 * unit * 10.0 ** -len(parts[2] or "")
    else:
        return f"shows {text!r}, which is no {style}"
    fine = math.isclose(sign * number, value, rel_tol=1e-12, abs_tol=half * (1 + 1e-9))
    return None if fine else f"shows {text}, which is not {value}"


def wrong_figure(figure, evidence):
    """Why a figure is not what the evidence says; None if it is."""
    value = json.loads(figure["value"])
    if not figure["run"]:
        return "names no run"
    if place := figure["envelope"]:
        expected = values(evidence.of(figure["run"], "envelope.json"), place)
    elif place := figure["derived"]:
        expected = [derive(evidence.of(figure["run"], "run.json"), place)]
    elif place := figure["field"]:
        expected = values(evidence.of(figure["run"], "run.json"), place)
    else:
        return "names no place"
    if len(expected) != 1 or isinstance(expected[0], bool) != isinstance(value, bool):
        return f"{place}: the record has {expected}"
    close = figure["derived"] and math.isclose(expected[0], value, rel_tol=1e-12, abs_tol=1e-12)
    if expected[0] != value and not close:
        return f"{place}: {value} stands there, the record has {expected[0]}"
    problem = shown_as(figure["text"], figure["style"], value)
    return f"{place}: {problem}" if problem else None


def rgb(colour):
    return [float(it) for it in re.findall(r"[\d.]+", colour)[:3]]


def contrast(colour, other):
    def brightness(colour):
        parts = [it / 255 for it in rgb(colour)]
        linear = [it / 12.92 if it <= 0.04045 else ((it + 0.055) / 1.055) ** 2.4 for it in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((brightness(colour), brightness(other)))
    return (high + 0.05) / (low + 0.05)


def wrong_layout(layout, width, name, directory):
    found = []
    if layout["scroll"] > layout["client"] or layout["wide"]:
        found.append(f"is {layout['scroll']} wide in {layout['client']}: {layout['wide'][:3]}")
    if not layout["plots"]:
        found.append("has no plot")
    for number, plot in enumerate(layout["plots"]):
        if plot["shapes"] < 5 or plot["texts"] < 3 or plot["width"] < 0.6 * min(width, 600) or plot["height"] < 50:
            found.append(f"plot {number} is not drawn: {plot}")
        if plot["role"] != "img" or len(plot["said"]) < 40:
            found.append(f"plot {number} is not said in words")
        if plot["letters"] < 9:
            found.append(f"plot {number} has letters of {plot['letters']} pixels")
    if not layout["tables"] or not all(all(table.values()) for table in layout["tables"]):
        found.append(f"a table cannot be read aloud: {layout['tables']}")
    if layout["lang"] != "en" or not layout["title"] or layout["headings"] != 1:
        found.append("lacks its language, title or one heading")
    if len(set(layout["ids"])) != len(layout["ids"]):
        found.append("has an id twice")
    for link in layout["links"]:
        there = link[1:] in layout["ids"] if link.startswith("#") else (directory / link).is_file()
        if not there:
            found.append(f"links {link}, which is not there")
    return found


def wrong_colours(colours):
    found = set()
    for what, colour, behind in colours:
        least = CONTRAST_PLOT_MIN if what == "plot" else CONTRAST_MIN
        if contrast(colour, behind) < least:
            found.add(f"{what} {colour} on {behind} has a contrast of {contrast(colour, behind):.1f}")
    return sorted(found)


def check(browser, directory, name, evidence):
    """Everything that is wrong with a page, and how many figures it has."""
    found, counted = [], 0
    for scheme in SCHEMES:
        for width in WIDTHS:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            said = []
            page.on("console", lambda message: said.append(f"logs {message.text}"))
            page.on("pageerror", lambda error: said.append(f"throws {error}"))
            page.on("requestfailed", lambda request: said.append(f"fails to get {request.url}"))
            own = (directory / f"{name}.html").as_uri()
            page.on("request", lambda request: request.url != own and said.append(f"asks for {request.url}"))
            page.goto(own)
            problems = wrong_layout(page.evaluate(LAYOUT), width, name, directory) + wrong_colours(page.evaluate(COLOURS))
            figures = page.evaluate(FIGURES)
            problems += [it for it in (wrong_figure(figure, evidence) for figure in figures) if it]
            counted = len(figures)
            found += [f"{name}.html, {width} wide, {scheme}: {it}" for it in problems + said]
            context.close()
    if counted < FIGURES_MIN:
        found.append(f"{name}.html has {counted} figures, and {FIGURES_MIN} or more were expected")
    return found, counted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("html", type=pathlib.Path)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--page", action="append", help="without ending; session-50x5 and index if none is given")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    arguments = parser.parse_args()
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError as error:
        print(f"{error}: python3 -m pip install playwright", file=sys.stderr)
        return 2
    found = []
    directory, evidence = arguments.html.resolve(), Evidence(arguments.results.resolve())
    try:
        with sync_playwright() as tools:
            browser = tools.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
            for name in arguments.page or ["session-50x5", "index"]:
                problems, counted = check(browser, directory, name, evidence)
                print(f"{name}.html: {counted} figures, {len(WIDTHS) * len(SCHEMES)} ways to look, {len(problems)} problems")
                found += problems
            browser.close()
    except Error as error:
        print(f"the browser did not do as asked: {error}", file=sys.stderr)
        return 2
    for problem in found[:50]:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
