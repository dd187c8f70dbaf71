"""How fast a device multiplies matrices: a peak, and dimensions below which a product gets too thin for it."""

from collections.abc import Mapping
from dataclasses import dataclass

from detol.graph.cost import Product

LINEAR, POINTWISE, CONVOLUTION, DEPTHWISE = "linear", "pointwise", "convolution", "depthwise"
KINDS = (LINEAR, POINTWISE, CONVOLUTION, DEPTHWISE)
"""Kinds of products that have a rate of their own: linear layers, 1x1 convolutions, larger ones, depthwise ones."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The rate of products (rows x inner) by (inner x outputs): peak times d / (d + half size) for each dimension.

    A dimension of its half size alone halves the rate. So the time of a product is that of one whose every dimension
    is larger by its half size (rows of a tile that stay empty, start of a pipeline): it grows with each dimension, and
    falls by less than half when one is halved.

    Args:
        peak: multiply-adds a second of a large product, > 0.
        rows: half size of samples times places, >= 0.
        inner: half size of what is summed over, >= 0.
        outputs: half size of the outputs, >= 0.
        start: seconds that a layer's product takes whatever its size, >= 0, on a device that computes while the host is
            ahead (:func:`seconds` alone counts it).
    """

    peak: float
    rows: float = 0.0
    inner: float = 0.0
    outputs: float = 0.0
    start: float = 0.0

    def __post_init__(self) -> None:
        if not (self.peak > 0 and self.rows >= 0 and self.inner >= 0 and self.outputs >= 0 and self.start >= 0):
            raise ValueError(f"a rate has a peak > 0, half sizes >= 0 and a start >= 0, got {self}")

    def seconds(self, rows: float, inner: float, outputs: float) -> float:
        """Return the seconds of one product."""
        return (rows + self.rows) * (inner + self.inner) * (outputs + self.outputs) / self.peak

    def at(self, rows: float, inner: float, outputs: float) -> float:
        """Return the multiply-adds a second of a product."""
        return rows * inner * outputs / self.seconds(rows, inner, outputs)


def kind(product: Product) -> str:
    """Return which rate a layer's product has."""
    if product.flat:
        return LINEAR
    if product.groups > 1 and product.inner == product.area:
        return DEPTHWISE
    return POINTWISE if product.area == 1 else CONVOLUTION


def seconds(rates: Mapping[str, Rate], product: Product, samples: float, *, joined: bool) -> float:
    """Return the seconds of a layer's products for some samples, one of its passes (forward, or one backward).

    Args:
        rates: by kind.
        product: of one sample and group.
        samples: >= 0.
        joined: whether the library computes a batch of convolutions as one product (cuDNN, oneDNN); otherwise each
            sample is a product of its own, C x (c k^2) by (c k^2) x Z (Keuper and Pfreundt 2016, arXiv 1609.06870,
            section on skinny products), and a small batch makes no product thinner.
    """
    rate = rates[kind(product)]
    if not samples:
        return 0.0
    if product.flat or joined:
        return rate.start + product.groups * rate.seconds(samples * product.places, product.inner, product.outputs)
    return rate.start + samples * product.groups * rate.seconds(product.places, product.inner, product.outputs)
