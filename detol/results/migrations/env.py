"""What Alembic runs for each command: the migrations on the connection that it was given."""

from alembic import context

from detol.results.schema import VERSION_TABLE, metadata


def run() -> None:
    """Run the migrations; the caller has begun the transaction and commits it."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        render_as_batch=True,
    )
    with context.begin_transaction():
        context.run_migrations()


if __name__ != "detol.results.migrations.env":  # Alembic loads the file under a name of its own
    run()
