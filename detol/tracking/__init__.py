"""The MLflow mirror: a search shown to people while it runs. It may lag or fail; the search goes on."""
