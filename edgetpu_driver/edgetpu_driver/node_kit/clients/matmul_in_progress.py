"""A product that a driver is computing: its requests, and the outputs received so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from edgetpu_driver.errors import EdgeTpuError, unexpected
from edgetpu_driver.matrix.product_passes import Products, RealProduct, TileRequest


@dataclass(frozen=True)
class ProductResult:
    """The product of one request, or the error that prevented it."""

    product: RealProduct | None = None
    error: EdgeTpuError | None = None


@dataclass
class ProductInProgress:
    """The requests of one product, round by round, and the outputs received so far."""

    computation: Products
    done: Callable[[ProductResult], None]
    requests: Sequence[TileRequest]
    sent: int = 0
    answered: int = 0
    outputs: dict[int, NDArray[Any]] = field(default_factory=dict)
    """By the index of the request."""
    error: EdgeTpuError | None = None

    @property
    def in_flight(self) -> int:
        """Requests without an answer."""
        return self.sent - self.answered

    @property
    def next(self) -> TileRequest | None:
        """The request to send next in this round; None if all were sent or one has failed."""
        if self.error is not None or self.sent == len(self.requests):
            return None
        return self.requests[self.sent]

    @property
    def round_ended(self) -> bool:
        """Whether all requests of the round were answered, or one has failed and none is in flight."""
        return not self.in_flight and self.next is None

    def end_round(self) -> ProductResult | None:
        """Take the outputs of the round, and start the next one; return the result if there is none.

        Any exception becomes the result: a product that does not end would keep all others waiting.
        """
        if self.error is not None:
            return ProductResult(error=self.error)
        try:
            outputs = [self.outputs[index] for index in range(len(self.requests))]
            self.requests = self.computation.send(outputs)
        except StopIteration as finished:
            return ProductResult(finished.value.only)
        except EdgeTpuError as error:
            return ProductResult(error=error)
        except Exception as error:
            return ProductResult(error=unexpected(error))
        self.sent = self.answered = 0
        self.outputs = {}
        return None
