"""The tables of the results database.

Natural keys (digests, names, numbers) join the tables, so that a person can read the rows and a writer never has to
look up an id. Structured values are JSON text (see :mod:`detol.results.rows`); moments are UTC in ISO 8601; a NaN is
NULL.

A topology is kept in the exact form a trial had, by the hash of that form: isomorphic forms share a ``digest``, which
is an index and not a key, so that even a collision of digests cannot mix two networks. What a topology costs depends on
the data (input shape, outputs); ``costs`` holds it once for each pair. Trials repeat it, so that an index in the order
of the scores answers "the best", and "the best that is smaller", without a look at the other rows.

Where results come from: ``searches.uid`` is the same in every copy of a search; one that was imported has a ``source``
(who gave it; empty for our own) and a ``provenance`` (its name there, the file, when, and what *its* source was).
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

REVISIONS = ("0001", "0002")
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
    _text("uid"),
    _text("source"),
    _text("provenance", "{}"),
    Index("ix_searches_uid", "uid", unique=True),
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
    _text("inherited"),  # of ``extra``: whose weights it started from
    # Of ``costs``.
    Column("params", BigInteger),
    Column("multiply_adds", BigInteger),
    Column("activation_bytes", BigInteger),
    Column("depth", Integer),
    Index("ix_trials_known", "digest", "recipe", "data", "epochs"),
    Index(
        "ix_trials_rank",
        *("state", "score", "search", "number", "params", "multiply_adds", "activation_bytes", "depth"),
    ),
    Index("ix_trials_search_rank", "search", "state", "score"),
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

leases = Table(
    "leases",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("recipe", Text, primary_key=True),
    Column("data", Text, primary_key=True),
    Column("epochs", Integer, primary_key=True, autoincrement=False),
    Column("search", Integer, ForeignKey("searches.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("seed", BigInteger, nullable=False),
    _text("owner"),
    Column("expires", Double, nullable=False),
)
"""Who trains a topology right now; after ``expires`` (seconds since 1970) it is anybody's again."""

embeddings = Table(
    "embeddings",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("encoder", Text, primary_key=True),
    Column("version", Text, primary_key=True),
    Column("vector", LargeBinary, nullable=False),
    _text("created"),
)
"""Topologies as vectors: float32, little endian."""

descriptors = Table(
    "descriptors",
    metadata,
    Column("data", Text, primary_key=True),
    Column("version", Text, primary_key=True),
    _text("body", "{}"),
    _text("created"),
)
"""Data sets as figures that distances are taken of; JSON. A data set may be described before it is first searched."""

warm_sources = Table(
    "warm_sources",
    metadata,
    Column("search", Integer, ForeignKey("searches.id"), primary_key=True, autoincrement=False),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    _text("source_search"),
    _text("source_data"),
    Column("weight", Double, nullable=False, server_default="1"),
    Column("records", Integer, nullable=False, server_default="0"),
    _text("facts", "{}"),
)
"""What a search began with: the earlier searches whose records it was given."""
