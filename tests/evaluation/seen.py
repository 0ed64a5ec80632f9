"""What a reader sees of a figure."""

import numpy as np
from matplotlib.collections import FillBetweenPolyCollection, LineCollection, TriMesh


def names(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def line(axes, label):
    return next(one for one in axes.get_lines() if one.get_label() == label)


def values(axes, label):
    return line(axes, label).get_ydata()


def lines(axes):
    """Return the lines with data; the others are entries of the legend."""
    return [one for one in axes.get_lines() if len(one.get_xdata())]


def thin(axes):
    """Return the thin grey lines of members."""
    return [one for one in axes.get_lines() if one.get_linewidth() == 0.5]


def ticks(axes):
    found = [one for one in axes.collections if isinstance(one, LineCollection)]
    return [np.array([path[0, 0] for path in one.get_segments()]) for one in found]


def mesh(axes):
    return next((one for one in axes.collections if isinstance(one, TriMesh)), None)


def planes(figure):
    """Return the panels of fields over two coordinates."""
    return [axes for axes in figure.axes if mesh(axes)]


def colours(figure):
    """Return the values that each plane shows."""
    return [mesh(axes).get_array() for axes in planes(figure)]


def band(axes, at=-1.0):
    """Return the lower and the upper edge of the shaded band at one x."""
    filled = next(one for one in axes.collections if isinstance(one, FillBetweenPolyCollection))
    corners = filled.get_paths()[0].vertices
    there = corners[corners[:, 0] == at, 1]
    return there.min(), there.max()


def check_texts(figure):
    """Check that no text is cut off, and no title, label or name lies over another or a panel."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    texts = [figure._suptitle] if figure._suptitle else []
    texts += [text for legend in figure.legends for text in legend.get_texts()]
    for axes in figure.axes:
        texts += [axes.title, axes._right_title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
    texts = [text for text in texts if text.get_text()]
    boxes = [text.get_window_extent(renderer) for text in texts]
    panels = [axes.get_window_extent(renderer) for axes in figure.axes]
    for text, box in zip(texts, boxes, strict=True):
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1
        assert inside and box.y1 <= figure.bbox.y1 + 1, f"{text} is cut off"
        assert not any(box.overlaps(panel) for panel in panels), f"{text} is over a panel"
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i]), f"{texts[i]} is over another"
