"""A row's arithmetic as a page: tables of products, the keys' columns, vectors."""
