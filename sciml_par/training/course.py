"""One model on its way from step to step; where its loss is not finite any more, it ends."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sciml_par.training.loop import Chunk, Loop, State


class Course:
    """How far a model has come. All methods are collective in the loop's group.

    Attributes
    ----------
    state : where the model stands.
    loss : the last that was computed.
    failed_at : after how many updates the loss or its gradient was not finite; None if it was not
        met. Then `state` is that of the last weights whose loss and gradient were finite, or the
        first, if there were none.
    seconds : spent in steps.
    """

    def __init__(self, loop: Loop, start: State) -> None:
        self._loop = loop
        self.state = start
        self.loss = float("nan")
        self.failed_at: int | None = None
        self.seconds = 0.0
        self._recorded: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]] = []
        self._before: tuple[State, int] | None = None

    @property
    def finite(self) -> bool:
        """Whether the model goes on."""
        return self.failed_at is None

    def compile(self) -> float:
        """Do the first step, which is thrown away, and return the seconds that it took."""
        first = self._loop.advance(self.state, 1)
        self._judge(first, 1)
        return first.seconds

    def advance(self, count: int) -> float:
        """Do `count` steps, unless the model has ended, and return the seconds."""
        if not self.finite:
            return 0.0
        chunk = self._loop.advance(self.state, count)
        self.seconds += chunk.seconds
        self._recorded.append((chunk.steps, chunk.losses))
        self._judge(chunk, count)
        if chunk.finite:
            self._before, self.state = (self.state, count), chunk.state
        return chunk.seconds

    def finish(self) -> None:
        """Compute the loss of the weights as they are; step back if it is not finite."""
        last = self._loop.advance(self.state, 1)
        if self.finite and not last.finite:
            self._judge(last, 1)
            last = self._loop.advance(self.state, 1)
        self.loss = last.loss

    def history(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The steps at which losses were recorded, and these; the last is that of the end."""
        steps = np.concatenate([each for each, _ in self._recorded] + [np.empty(0, np.int64)])
        losses = np.concatenate([each for _, each in self._recorded] + [np.empty(0)])
        kept = steps < self.state.step
        return np.append(steps[kept], self.state.step), np.append(losses[kept], self.loss)

    def _judge(self, chunk: Chunk, count: int) -> None:
        self.loss = chunk.loss
        if chunk.finite:
            return
        self.failed_at = chunk.state.step
        done = chunk.state.step - self.state.step
        if done == 0 and self._before is not None:
            self.state, done = self._before
        # The loop has kept the weights whose loss is not finite; those before them are made again.
        if done > 1:
            self.state = self._loop.advance(self.state, done - 1).state
