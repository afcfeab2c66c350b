"""${message}."""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the schema from ${down_revision or "nothing"} to ${up_revision}."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Go back; refused: restore a backup instead."""
    raise NotImplementedError("restore a backup taken before the upgrade")
