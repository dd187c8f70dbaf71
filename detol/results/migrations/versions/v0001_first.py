"""The first schema.

Written out and not made from ``schema.metadata``, which moves on: an old database must still open.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _text(name: str, default: str = "") -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=False, server_default=default)


def _number(name: str) -> "sa.Column[int]":
    return sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "data_sets",
        sa.Column("digest", sa.Text, primary_key=True),
        _text("name"),
        _text("kind"),
        _text("task"),
        _text("shape", "[]"),
        sa.Column("outputs", sa.Integer),
        _text("description", "{}"),
    )
    op.create_table(
        "topologies",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("ix_topologies_digest", "topologies", ["digest"])
    op.create_table(
        "costs",
        sa.Column("topology", sa.Text, sa.ForeignKey("topologies.key", name="fk_costs_topology"), primary_key=True),
        sa.Column("data", sa.Text, sa.ForeignKey("data_sets.digest", name="fk_costs_data"), primary_key=True),
        sa.Column("params", sa.BigInteger, nullable=False),
        sa.Column("multiply_adds", sa.BigInteger, nullable=False),
        sa.Column("activation_bytes", sa.BigInteger, nullable=False),
        sa.Column("depth", sa.Integer, nullable=False),
    )
    op.create_table("recipes", sa.Column("digest", sa.Text, primary_key=True), _text("settings", "{}"))
    op.create_table(
        "searches",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("data", sa.Text, sa.ForeignKey("data_sets.digest", name="fk_searches_data"), nullable=False),
        sa.Column("recipe", sa.Text, sa.ForeignKey("recipes.digest", name="fk_searches_recipe"), nullable=False),
        _text("space"),
        _text("strategy"),
        _text("options", "{}"),
        _text("stopper"),
        _text("objectives", "[]"),
        _text("objective"),
        _text("seed"),
        sa.Column("trials", sa.Integer),
        sa.Column("epochs", sa.Integer),
        _text("settings", "{}"),
        sa.Column("config_digest", sa.Text, nullable=False),
        _text("versions", "{}"),
        _text("state", "running"),
        sa.Column("consumed", sa.Double, nullable=False, server_default="0"),
        _text("created"),
        _text("ended"),
        _text("host"),
        sa.Column("pid", sa.Integer),
        _text("owner"),
        sa.Column("heartbeat", sa.Double, nullable=False, server_default="0"),
    )
    op.create_index("ix_searches_data", "searches", ["data"])
    op.create_index("ix_searches_config_digest", "searches", ["config_digest"])
    _create_trials()


def _create_trials() -> None:
    op.create_table(
        "trials",
        sa.Column(
            "search",
            sa.Integer,
            sa.ForeignKey("searches.id", name="fk_trials_search"),
            primary_key=True,
            autoincrement=False,
        ),
        _number("number"),
        sa.Column("topology", sa.Text, sa.ForeignKey("topologies.key", name="fk_trials_topology"), nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("recipe", sa.Text, sa.ForeignKey("recipes.digest", name="fk_trials_recipe"), nullable=False),
        sa.Column("data", sa.Text, sa.ForeignKey("data_sets.digest", name="fk_trials_data"), nullable=False),
        _text("decisions", "{}"),
        _text("origin"),
        _text("note"),
        _text("state"),
        sa.Column("epochs", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("width", sa.Integer, nullable=False, server_default="1"),
        sa.Column("score", sa.Double),
        sa.Column("scores", sa.Text),
        _text("reason"),
        sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
        sa.Column("seconds", sa.Double),
        _text("reused"),
        _text("weights"),
        _text("extra", "{}"),
        _text("created"),
        _text("ended"),
    )
    op.create_index("ix_trials_known", "trials", ["digest", "recipe", "data", "epochs"])
    op.create_index("ix_trials_top", "trials", ["data", "score"])
    trial = ["trials.search", "trials.number"]
    op.create_table(
        "parents",
        _number("search"),
        _number("number"),
        _number("slot"),
        sa.Column("parent", sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(["search", "number"], trial, name="fk_parents_search"),
    )
    op.create_table(
        "reports",
        _number("search"),
        _number("number"),
        _number("epoch"),
        sa.Column("score", sa.Double),
        _text("metrics", "{}"),
        sa.Column("seconds", sa.Double),
        sa.ForeignKeyConstraint(["search", "number"], trial, name="fk_reports_search"),
    )
    op.create_table(
        "steps",
        sa.Column(
            "search",
            sa.Integer,
            sa.ForeignKey("searches.id", name="fk_steps_search"),
            primary_key=True,
            autoincrement=False,
        ),
        _number("number"),
        sa.Column("asked", sa.Integer, nullable=False),
        _text("told", "[]"),
    )


def downgrade() -> None:
    """Refuse: results are never thrown away."""
    raise NotImplementedError("the first schema has nothing before it")
