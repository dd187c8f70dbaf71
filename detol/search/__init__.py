"""The search: records, protocols, controller, limits, resume."""
