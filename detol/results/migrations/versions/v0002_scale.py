"""The second schema: provenance, costs beside the scores, and what later searches learn from earlier ones."""

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_COSTS = ("params", "multiply_adds", "activation_bytes", "depth")


def _text(name: str, default: str = "") -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=False, server_default=default)


def _key(name: str) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, primary_key=True)


def _number(name: str) -> "sa.Column[int]":
    return sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)


def upgrade() -> None:
    """Add columns and tables; fill the columns from what is there."""
    for name, default in (("uid", ""), ("source", ""), ("provenance", "{}")):
        op.add_column("searches", _text(name, default))
    op.add_column("trials", _text("inherited"))
    for name in _COSTS:
        op.add_column("trials", sa.Column(name, sa.Integer if name == "depth" else sa.BigInteger))
    _fill(op.get_bind())
    op.create_index("ix_searches_uid", "searches", ["uid"], unique=True)
    op.drop_index("ix_trials_top", "trials")
    op.create_index("ix_trials_rank", "trials", ["state", "score", "search", "number", *_COSTS])
    op.create_index("ix_trials_search_rank", "trials", ["search", "state", "score"])
    _create_tables()


def _fill(connection: sa.Connection) -> None:
    names = ("id", "name", "created", "config_digest")
    searches = sa.table("searches", *map(sa.column, (*names, "uid")))
    for row in connection.execute(sa.select(*(searches.c[name] for name in names))).all():
        # Made from what never changes, so that copies of one old database agree on it.
        uid = hashlib.sha256(json.dumps(list(row[1:])).encode()).hexdigest()[:32]
        connection.execute(searches.update().where(searches.c.id == row.id).values(uid=uid))
    places = ("search", "number", "topology", "data", "extra", "inherited")
    trials = sa.table("trials", *map(sa.column, (*places, *_COSTS)))
    costs = sa.table("costs", *map(sa.column, ("topology", "data", *_COSTS)))
    priced = sa.and_(costs.c.topology == trials.c.topology, costs.c.data == trials.c.data)
    found = {name: sa.select(costs.c[name]).where(priced).scalar_subquery() for name in _COSTS}
    connection.execute(trials.update().values(found))
    marked = sa.select(trials.c.search, trials.c.number, trials.c.extra)
    for row in connection.execute(marked.where(trials.c.extra.contains('"inherited_from"'))).all():
        here = (trials.c.search == row.search, trials.c.number == row.number)
        value = str(json.loads(row.extra).get("inherited_from", ""))
        connection.execute(trials.update().where(*here).values(inherited=value))


def _create_tables() -> None:
    op.create_table(
        "leases",
        *map(_key, ("digest", "recipe", "data")),
        _number("epochs"),
        sa.Column("search", sa.Integer, sa.ForeignKey("searches.id", name="fk_leases_search"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        _text("owner"),
        sa.Column("expires", sa.Double, nullable=False),
    )
    op.create_table(
        "embeddings",
        *map(_key, ("digest", "encoder", "version")),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        _text("created"),
    )
    op.create_table("descriptors", *map(_key, ("data", "version")), _text("body", "{}"), _text("created"))
    op.create_table(
        "warm_sources",
        sa.Column(
            "search",
            sa.Integer,
            sa.ForeignKey("searches.id", name="fk_warm_sources_search"),
            primary_key=True,
            autoincrement=False,
        ),
        _number("slot"),
        _text("source_search"),
        _text("source_data"),
        sa.Column("weight", sa.Double, nullable=False, server_default="1"),
        sa.Column("records", sa.Integer, nullable=False, server_default="0"),
        _text("facts", "{}"),
    )


def downgrade() -> None:
    """Refuse: results are never thrown away."""
    raise NotImplementedError("a results database is never brought to an older schema: use a copy from before")
