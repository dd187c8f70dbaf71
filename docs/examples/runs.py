"""What MLflow has of a search: ``python docs/examples/runs.py NAME``, with detol's default store."""

import sys

import mlflow

mlflow.set_tracking_uri("sqlite:///detol-runs/mlflow.db")
runs = mlflow.search_runs(experiment_names=["detol"], filter_string=f"tags.`detol.search` = '{sys.argv[1]}'")
is_parent = runs["tags.detol.kind"] == "search"
parent, children = runs[is_parent].iloc[0], runs[~is_parent]
print(
    f"parent run {parent['tags.mlflow.runName']!r}: {parent['status']}, best {parent['metrics.best.val_accuracy']:.4f}"
)
print(f"registered model: {parent.get('tags.detol.model', 'none')}")
columns = {"tags.mlflow.runName": "run", "tags.detol.state": "state", "metrics.val_accuracy": "val_accuracy",
           "tags.detol.extra.params": "params", "params.decisions.width": "width"}  # fmt: skip
table = children[list(columns)].rename(columns=columns).sort_values("val_accuracy", ascending=False)
print(table.head(5).to_string(index=False))
