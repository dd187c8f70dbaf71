"""On what and how a trial was trained, as far as the database knows it without the data."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from detol.results.places import Found
from detol.results.rows import from_text
from detol.results.schema import data_sets, recipes, trials


@dataclass(frozen=True)
class TrainingFacts:
    """Shape of a sample, outputs of the networks, training rows (0: unknown), and the recipe's settings."""

    shape: tuple[int, ...]
    outputs: int
    samples: int
    recipe: dict[str, Any]


def training_of(connection: sa.Connection, found: Found) -> TrainingFacts:
    """Return the facts of the training of a trial."""
    mine = sa.and_(trials.c.search == found.search_id, trials.c.number == found.trial.number)
    query = (
        sa.select(data_sets.c.shape, data_sets.c.outputs, data_sets.c.description, recipes.c.settings)
        .join_from(trials, data_sets, data_sets.c.digest == trials.c.data)
        .join(recipes, recipes.c.digest == trials.c.recipe)
        .where(mine)
    )
    shape, outputs, described, recipe = connection.execute(query).one()
    splits = from_text(described).get("splits", {})
    return TrainingFacts(tuple(from_text(shape)), int(outputs), int(splits.get("train", 0)), dict(from_text(recipe)))
