"""The MLflow mirror."""
