"""Draws line charts with linear or logarithmic axes as SVG.

    figure.write("flows.svg", "Flows a second", [
        figure.Panel(
            figure.Axis("rate of the link", "Mbit/s", log=True),
            figure.Axis("flows a second", log=True),
            [figure.Line("buffered", [(1, 1500), (10, 14900)]),
             figure.Line("whole frames", [(1, 800, 790, 805), (10, 8000)]),
             figure.Line("what fits", [(1, 1550), (10, 15500)], like="buffered", dashed=True, marks=False)],
        ),
    ])

The same data give the same bytes, so a figure changes in a commit only when its data did.
"""

import dataclasses
import math
import pathlib
from xml.sax.saxutils import escape

# The palette of Okabe and Ito, which colour-blind readers can distinguish.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b6b6b"]
MARKS = ["circle", "square", "up", "diamond", "down", "cross", "circle"]
INK, PALE = "#222222", "#dddddd"
FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
SIZE = 12
# Estimated width of a letter, relative to the font size.
LETTER = 0.56
LEFT, RIGHT, TOP, BOTTOM = 84, 16, 30, 50
HEADING = 30


@dataclasses.dataclass
class Axis:
    """An axis. Its range is that of the data unless given; a linear axis starts at 0."""

    label: str
    unit: str = ""
    log: bool = False
    low: float | None = None
    high: float | None = None
    # Positions of the ticks, instead of automatic ones.
    ticks: list | None = None

    def title(self):
        return f"{self.label} ({self.unit})" if self.unit else self.label


@dataclasses.dataclass
class Line:
    """Points in order: (x, y), or (x, y, min, max) for a point with an error bar."""

    label: str
    points: list
    # The label of the line whose colour and marker this one shares.
    like: str | None = None
    dashed: bool = False
    marks: bool = True
    # Draws steps: a value holds until the next point.
    steps: bool = False


@dataclasses.dataclass
class Panel:
    """One pair of axes with its lines."""

    x: Axis
    y: Axis
    lines: list
    title: str = ""


def write(path, title, panels, columns=1, width=640, height=300):
    """Draws panels of `width` by `height` in a grid of `columns`, with a common legend."""
    style = styles(panels)
    rows = math.ceil(len(panels) / columns)
    names = [(line, style[line.label]) for line in first_of_each(panels)]
    legend, below = legend_of(names, columns * width, HEADING + rows * height)
    parts = [text(columns * width / 2, 21, title, anchor="middle", size=SIZE + 3, weight="600")]
    for n, panel in enumerate(panels):
        left, top = n % columns * width, HEADING + n // columns * height
        parts += panel_of(panel, style, (left, top, width, height))
    whole = (columns * width, HEADING + rows * height + below)
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole[0]}" height="{whole[1]}" '
        f'viewBox="0 0 {whole[0]} {whole[1]}" font-family="{FONT}" font-size="{SIZE}" fill="{INK}">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *parts,
        *legend,
        "</svg>",
    ]
    pathlib.Path(path).write_text("\n".join(svg) + "\n")


def first_of_each(panels):
    """The first line of each label, in order."""
    found = {}
    for panel in panels:
        for line in panel.lines:
            found.setdefault(line.label, line)
    return list(found.values())


def styles(panels):
    """Colour and mark by label."""
    style, own = {}, 0
    for line in first_of_each(panels):
        if line.like is None:
            style[line.label] = (COLOURS[own % len(COLOURS)], MARKS[own % len(MARKS)])
            own += 1
    for line in first_of_each(panels):
        if line.like is not None:
            if line.like not in style:
                raise ValueError(f"line {line.label!r} has the style of {line.like!r}, which does not exist")
            style[line.label] = style[line.like]
    return style


class Scale:
    """Maps values of an axis to coordinates between `start` and `end`."""

    def __init__(self, axis, values, start, end):
        self.axis, self.start, self.end = axis, start, end
        if axis.log and min(values) <= 0:
            raise ValueError(f"{axis.label}: a logarithmic axis cannot show {min(values)}")
        low = axis.low if axis.low is not None else (min(values) if axis.log else min(0, *values))
        high = axis.high if axis.high is not None else max(values)
        if axis.log:
            low, high = self.decade(low, high, axis)
        elif high <= low:
            high = low + 1
        self.ticks = axis.ticks or (decades(low, high) if axis.log else steps(low, high))
        if not axis.log and axis.high is None:
            # Extend the axis to the next tick if that is near.
            high = max(high, self.ticks[-1])
            step = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else high - low
            if axis.ticks is None and high > self.ticks[-1] and self.ticks[-1] + step - high < step * 0.6:
                high = self.ticks[-1] + step
                self.ticks.append(high)
        self.low, self.high = low, high

    @staticmethod
    def decade(low, high, axis):
        """The given range, or the range of the data with a margin."""
        room = (high / low) ** 0.05 if high > low else 2
        return (
            low if axis.low is not None else low / room,
            high if axis.high is not None else high * room,
        )

    def holds(self, value):
        slack = (self.high - self.low) * 1e-9
        return self.low - slack <= value <= self.high + slack

    def at(self, value):
        if self.axis.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def steps(low, high):
    """About five round numbers."""
    rough = (high - low) / 5
    unit = 10 ** math.floor(math.log10(rough))
    step = next(unit * n for n in (1, 2, 2.5, 5, 10) if unit * n >= rough * 0.999)
    return [n * step for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def decades(low, high):
    """Powers of ten, with 2 and 5 between them where there are few."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    tens = [10.0**n for n in exponents]
    for factors in ((1,), (1, 2, 5)):
        ticks = [factor * ten for ten in tens for factor in factors]
        ticks = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(ticks) > 2:
            break
    return ticks


def number(value):
    """1500 as 1 500, 2000000 as 2 M, and no more digits than a tick needs."""
    for unit, letter in ((1e9, " G"), (1e6, " M")):
        if abs(value) >= unit:
            return f"{value / unit:.4g}{letter}"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.4g}"


def text(x, y, content, anchor="start", size=None, weight=None, turned=False):
    options = f' text-anchor="{anchor}"' if anchor != "start" else ""
    options += f' font-size="{size}"' if size else ""
    options += f' font-weight="{weight}"' if weight else ""
    options += f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{options}>{escape(content)}</text>'


def stroke(points, colour, width=1.0, dashed=False):
    coordinates = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<polyline points="{coordinates}" fill="none" stroke="{colour}" stroke-width="{width}" '
        f'stroke-linejoin="round"{dash}/>'
    )


def mark(shape, x, y, colour):
    r = 3.5
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" fill="{colour}"/>'
    if shape == "cross":
        return (
            f'<path d="M{x - r:.1f} {y - r:.1f}l{2 * r} {2 * r}m0 {-2 * r}l{-2 * r} {2 * r}" '
            f'stroke="{colour}" stroke-width="2" fill="none"/>'
        )
    corners = {
        "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        "up": [(0, -1.2), (1.1, 0.9), (-1.1, 0.9)],
        "down": [(0, 1.2), (1.1, -0.9), (-1.1, -0.9)],
        "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
    }[shape]
    coordinates = " ".join(f"{x + dx * r:.1f},{y + dy * r:.1f}" for dx, dy in corners)
    return f'<polygon points="{coordinates}" fill="{colour}"/>'


def panel_of(panel, style, area):
    """The axes and lines of one panel, as elements."""
    left, top, width, height = area
    box = (left + LEFT, left + width - RIGHT, top + TOP, top + height - BOTTOM)
    points = [point for line in panel.lines for point in line.points]
    if not points:
        raise ValueError(f"panel {panel.title!r} has no points")
    x = Scale(panel.x, [point[0] for point in points], box[0], box[1])
    y = Scale(panel.y, [v for point in points for v in (point[1], *point[2:])], box[3], box[2])
    parts = [text((box[0] + box[1]) / 2, top + TOP - 9, panel.title, anchor="middle", weight="600")]
    for tick in filter(x.holds, x.ticks):
        parts.append(stroke([(x.at(tick), box[2]), (x.at(tick), box[3])], PALE))
        parts.append(text(x.at(tick), box[3] + 17, number(tick), anchor="middle"))
    for tick in filter(y.holds, y.ticks):
        parts.append(stroke([(box[0], y.at(tick)), (box[1], y.at(tick))], PALE))
        parts.append(text(box[0] - 7, y.at(tick) + 4, number(tick), anchor="end"))
    parts.append(stroke([(box[0], box[2]), (box[0], box[3]), (box[1], box[3])], INK))
    parts.append(text((box[0] + box[1]) / 2, box[3] + 37, panel.x.title(), anchor="middle"))
    parts.append(text(left + 16, (box[2] + box[3]) / 2, panel.y.title(), anchor="middle", turned=True))
    for line in panel.lines:
        parts += line_of(line, style[line.label], x, y)
    return parts


def line_of(line, style, x, y):
    colour, shape = style
    # Points outside a given range are not drawn.
    points = [point for point in line.points if x.holds(point[0]) and y.holds(point[1])]
    coordinates = [(x.at(point[0]), y.at(point[1])) for point in points]
    path = coordinates
    if line.steps:
        path = [corner for (_, before), (px, py) in zip(coordinates[:1] + coordinates, coordinates) for corner in ((px, before), (px, py))]
    parts = [stroke(path, colour, 1.8, line.dashed)] if len(path) > 1 else []
    if line.marks:
        for point, (px, py) in zip(points, coordinates):
            if len(point) == 4:
                ends = [(px, y.at(min(max(value, y.low), y.high))) for value in point[2:]]
                parts.append(stroke(ends, colour, 1.2))
            parts.append(mark(shape, px, py, colour))
    return parts


def legend_of(names, width, top):
    """The legend below everything, as elements, and its height."""
    parts, x, y = [], LEFT, top + 10
    for line, (colour, shape) in names:
        room = 36 + len(line.label) * SIZE * LETTER + 20
        if x > LEFT and x + room > width:
            x, y = LEFT, y + 20
        parts.append(stroke([(x, y - 4), (x + 28, y - 4)], colour, 1.8, line.dashed))
        if line.marks:
            parts.append(mark(shape, x + 14, y - 4, colour))
        parts.append(text(x + 36, y, line.label))
        x += room
    return parts, y - top + 14
