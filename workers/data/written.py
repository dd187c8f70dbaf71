"""Numbers as they are written in text: with a decimal point or a decimal comma, thousands grouped or not."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from detol.workers.data.raw import Array

GROUPED = r"^[+-]?[1-9]\d{{0,2}}(?:{mark}\d{{3}})+(?:{point}\d*)?$"


@dataclass(frozen=True, slots=True)
class Writing:
    """How the numbers of a column are written.

    Args:
        comma: whether the decimal mark is a comma.
        grouped: whether the other mark groups thousands; numbers without such groups stand beside them as they are.
    """

    comma: bool = False
    grouped: bool = False

    @property
    def unsure(self) -> bool:
        """Whether other columns may say that its commas are decimal."""
        return self.grouped and not self.comma

    @property
    def told(self) -> str:
        """What a person should know of it; empty for numbers as Python writes them."""
        if self.grouped:
            return "dots group thousands, commas are decimal" if self.comma else "commas group thousands"
        return "commas are decimal" if self.comma else ""

    def read(self, text: Any) -> Array:
        """Return the numbers of a pandas series of stripped text, (n,) float64; NaN for what is missing or none."""
        import pandas as pd

        mark, point = (".", ",") if self.comma else (",", ".")
        groups = text.str.match(GROUPED.format(mark=f"\\{mark}", point=f"\\{point}")).fillna(False).astype(bool)
        if self.grouped:
            text = text.where(~groups, text.str.replace(mark, "", regex=False))
        elif self.comma:  # 1.234 beside 3,15 is not a little more than 1
            text = text.mask(groups)
        if self.comma:
            text = text.str.replace(",", ".", regex=False)
        return np.asarray(pd.to_numeric(text, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan))


WRITINGS = (Writing(), Writing(grouped=True), Writing(comma=True), Writing(comma=True, grouped=True))
"""In the order in which they are tried: ``1,234`` is taken for more than a thousand where nothing says otherwise."""
DECIMAL_COMMAS = (Writing(), Writing(comma=True), Writing(comma=True, grouped=True), Writing(grouped=True))
"""The order where another column shows that commas are decimal."""
