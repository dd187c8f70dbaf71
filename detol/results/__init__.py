"""The results database: schema, store, queries, reuse."""
