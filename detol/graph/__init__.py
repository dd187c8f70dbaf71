"""Topologies: operations, shapes, costs, edits, identity, JSON, torch modules."""
