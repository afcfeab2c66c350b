"""The account: rows of slots, the durable journal that holds them, and the wire format that carries them."""
