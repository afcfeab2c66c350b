"""Runs revisions on the connection that `kwhere.database.maintenance` hands over."""

from alembic import context
from sqlalchemy import Connection

from kwhere.database.schema import metadata


def run(connection: Connection) -> None:
    """Run the revisions that were asked for, in one transaction."""
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
