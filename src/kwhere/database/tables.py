"""What every table is made with: one catalogue, one way to name constraints, one type of key."""

from sqlalchemy import BigInteger, Integer, MetaData

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
# SQLite counts up only an INTEGER primary key; PostgreSQL needs 64 bits for a busy site.
Key = BigInteger().with_variant(Integer(), "sqlite")
