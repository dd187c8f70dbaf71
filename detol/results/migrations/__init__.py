"""Migrations of the results database (Alembic), shipped in the package and run when a database is opened."""

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from alembic.config import Config


def configuration(connection: sa.Connection | None = None) -> "Config":
    """Return Alembic's configuration of these migrations, on a connection that has begun a transaction."""
    from alembic.config import Config  # late: it takes 0.2 s, and a database that is up to date needs none of it

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def upgrade(connection: sa.Connection, revision: str = "head") -> None:
    """Bring a database to a revision inside the connection's transaction: all or nothing."""
    from alembic import command

    command.upgrade(configuration(connection), revision)
