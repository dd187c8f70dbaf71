"""AlexNet and GoogLeNet, layer by layer: the networks whose limits of scaling are published.

AlexNet as Caffe trains it (``bvlc_alexnet``: 227 x 227, two groups in the second, fourth and fifth convolution;
Krizhevsky et al. 2012, section 3.5). GoogLeNet as in Szegedy et al. 2014 (arXiv 1409.4842, table 1), 224 x 224, with
its two auxiliary classifiers, which are trained as well. Batches: Keuper and Pfreundt 2016 (arXiv 1609.06870, table 1).
"""

from collections.abc import Iterator, Sequence

from detol.graph.cost import Layer, convolution, free
from detol.scaling.work import Work

CLASSES = 1000
BATCHES = {"alexnet": 256, "googlenet": 32}
"""Samples of a step, by network."""

STORED = 256 * 256 * 3
"""Bytes of one image of ImageNet as a data base for training holds it: 256 x 256 pixels, 8 bits, three colours."""

INCEPTION = (
    # input channels, positions; 1x1, 3x3 reduced and 3x3, 5x5 reduced and 5x5, projection of the pool
    (192, 28, 64, 96, 128, 16, 32, 32),
    (256, 28, 128, 128, 192, 32, 96, 64),
    (480, 14, 192, 96, 208, 16, 48, 64),
    (512, 14, 160, 112, 224, 24, 64, 64),
    (512, 14, 128, 128, 256, 24, 64, 64),
    (512, 14, 112, 144, 288, 32, 64, 64),
    (528, 14, 256, 160, 320, 32, 128, 128),
    (832, 7, 256, 160, 320, 32, 128, 128),
    (832, 7, 384, 192, 384, 48, 128, 128),
)
"""Rows 3a to 5b of the table."""

AUXILIARY = (2, 5)
"""Rows of ``INCEPTION`` (4a and 4d) behind which an auxiliary classifier stands: 4 x 4 positions after its pool."""

POOLED = (1, 6)
"""Rows behind which a 3 x 3 pool with stride 2 stands (3b and 4e)."""


def network(name: str) -> Work:
    """Return ``alexnet`` or ``googlenet``."""
    made = {"alexnet": _alexnet, "googlenet": _googlenet}[name]
    side = 227 if name == "alexnet" else 224
    return Work(name, tuple(made()), STORED, 3 * side * side)


def _conv(channels: int, outputs: int, side: int, kernel: int, groups: int = 1) -> Iterator[Layer]:
    after = (outputs, side, side)
    yield convolution(channels, after, kernel, groups=groups, bias=True)
    yield free(after)


def _dense(inputs: int, outputs: int, *, last: bool = False) -> Iterator[Layer]:
    yield convolution(inputs, (outputs,), bias=True)
    if not last:
        yield free((outputs,))
        yield free((outputs,))  # dropout


def _alexnet() -> Iterator[Layer]:
    yield from _conv(3, 96, 55, 11)
    yield free((96, 55, 55))  # local response normalisation
    yield free((96, 27, 27))  # pooling
    yield from _conv(96, 256, 27, 5, 2)
    yield free((256, 27, 27))
    yield free((256, 13, 13))
    yield from _conv(256, 384, 13, 3)
    yield from _conv(384, 384, 13, 3, 2)
    yield from _conv(384, 256, 13, 3, 2)
    yield free((256, 6, 6))
    yield from _dense(256 * 36, 4096)
    yield from _dense(4096, 4096)
    yield from _dense(4096, CLASSES, last=True)


def _googlenet() -> Iterator[Layer]:
    yield from _conv(3, 64, 112, 7)
    yield free((64, 56, 56))
    yield free((64, 56, 56))
    yield from _conv(64, 64, 56, 1)
    yield from _conv(64, 192, 56, 3)
    yield free((192, 56, 56))
    yield free((192, 28, 28))
    for number, row in enumerate(INCEPTION):
        leaving = row[2] + row[4] + row[6] + row[7]
        yield from _inception(row)
        if number in POOLED:
            side = INCEPTION[number + 1][1]
            yield free((leaving, side, side))
        if number in AUXILIARY:
            yield free((leaving, 4, 4))
            yield from _conv(leaving, 128, 4, 1)
            yield from _dense(128 * 16, 1024)
            yield from _dense(1024, CLASSES, last=True)
    yield free((1024,))
    yield free((1024,))
    yield from _dense(1024, CLASSES, last=True)


def _inception(row: Sequence[int]) -> Iterator[Layer]:
    channels, side, one, three_in, three, five_in, five, pool = row
    yield from _conv(channels, one, side, 1)
    yield from _conv(channels, three_in, side, 1)
    yield from _conv(three_in, three, side, 3)
    yield from _conv(channels, five_in, side, 1)
    yield from _conv(five_in, five, side, 5)
    yield free((channels, side, side))
    yield from _conv(channels, pool, side, 1)
