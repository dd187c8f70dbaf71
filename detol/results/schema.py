"""The tables of the results database.

Natural keys (digests, names, numbers) join the tables, so that a person can read the rows and a writer never has to
look up an id. Structured values are JSON text (see :mod:`detol.results.rows`); moments are UTC in ISO 8601; a NaN is
NULL.

A topology is kept in the exact form a trial had, by the hash of that form: isomorphic forms share a ``digest``, which
is an index and not a key, so that even a collision of digests cannot mix two networks. What a topology costs depends on
the data (input shape, outputs); ``costs`` holds it once for each pair, not with every trial.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)

REVISIONS = ("0001",)
"""Every released schema, oldest first; the last is this one. Each has a script in ``migrations/versions``."""

VERSION_TABLE = "detol_version"
"""Where the database says its revision; not Alembic's default name, which MLflow uses for itself."""

metadata = MetaData(
    naming_convention={"ix": "ix_%(table_name)s_%(column_0_name)s", "fk": "fk_%(table_name)s_%(column_0_name)s"}
)


def _text(name: str, default: str | None = "") -> "Column[str]":
    """Return a text column that is never NULL."""
    return Column(name, Text, nullable=False, server_default=default)


data_sets = Table(
    "data_sets",
    metadata,
    Column("digest", Text, primary_key=True),
    _text("name"),
    _text("kind"),
    _text("task"),
    _text("shape", "[]"),
    Column("outputs", Integer),
    _text("description", "{}"),
)

topologies = Table(
    "topologies",
    metadata,
    Column("key", Text, primary_key=True),
    Column("digest", Text, nullable=False, index=True),
    Column("body", Text, nullable=False),
)

costs = Table(
    "costs",
    metadata,
    Column("topology", Text, ForeignKey("topologies.key"), primary_key=True),
    Column("data", Text, ForeignKey("data_sets.digest"), primary_key=True),
    Column("params", BigInteger, nullable=False),
    Column("multiply_adds", BigInteger, nullable=False),
    Column("activation_bytes", BigInteger, nullable=False),
    Column("depth", Integer, nullable=False),
)

recipes = Table(
    "recipes",
    metadata,
    Column("digest", Text, primary_key=True),
    _text("settings", "{}"),
)

searches = Table(
    "searches",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("data", Text, ForeignKey("data_sets.digest"), nullable=False, index=True),
    Column("recipe", Text, ForeignKey("recipes.digest"), nullable=False),
    _text("space"),
    _text("strategy"),
    _text("options", "{}"),
    _text("stopper"),
    _text("objectives", "[]"),
    _text("objective"),  # the first of them: what ``trials.score`` is made of
    _text("seed"),
    Column("trials", Integer),
    Column("epochs", Integer),
    _text("settings", "{}"),
    Column("config_digest", Text, nullable=False, index=True),
    _text("versions", "{}"),
    _text("state", "running"),
    Column("consumed", Double, nullable=False, server_default="0"),
    _text("created"),
    _text("ended"),
    # Who runs it now; an empty owner: nobody does.
    _text("host"),
    Column("pid", Integer),
    _text("owner"),
    Column("heartbeat", Double, nullable=False, server_default="0"),
)

trials = Table(
    "trials",
    metadata,
    Column("search", Integer, ForeignKey("searches.id"), primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("topology", Text, ForeignKey("topologies.key"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("recipe", Text, ForeignKey("recipes.digest"), nullable=False),
    Column("data", Text, ForeignKey("data_sets.digest"), nullable=False),
    _text("decisions", "{}"),
    _text("origin"),
    _text("note"),
    _text("state"),
    Column("epochs", Integer, nullable=False),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("seed", BigInteger, nullable=False),
    Column("width", Integer, nullable=False, server_default="1"),
    Column("score", Double),
    Column("scores", Text),
    _text("reason"),
    Column("attempt", Integer, nullable=False, server_default="1"),
    Column("seconds", Double),
    _text("reused"),
    _text("weights"),
    _text("extra", "{}"),
    _text("created"),
    _text("ended"),
    Index("ix_trials_known", "digest", "recipe", "data", "epochs"),
    Index("ix_trials_top", "data", "score"),
)

_TRIAL = ["trials.search", "trials.number"]

parents = Table(
    "parents",
    metadata,
    Column("search", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("parent", Integer, nullable=False),
    ForeignKeyConstraint(["search", "number"], _TRIAL),
)

reports = Table(
    "reports",
    metadata,
    Column("search", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("score", Double),
    _text("metrics", "{}"),
    Column("seconds", Double),
    ForeignKeyConstraint(["search", "number"], _TRIAL),
)

steps = Table(
    "steps",
    metadata,
    Column("search", Integer, ForeignKey("searches.id"), primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("asked", Integer, nullable=False),
    _text("told", "[]"),
)
