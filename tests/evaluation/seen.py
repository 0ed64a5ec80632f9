"""What a reader sees of a figure."""

from matplotlib.collections import FillBetweenPolyCollection


def names(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def line(axes, label):
    return next(one for one in axes.get_lines() if one.get_label() == label)


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
