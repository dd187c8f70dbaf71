"""Nothing that was stored or sent from elsewhere is unpickled: that could run code."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("detol", "search_spaces", "workers", "dashboards")
OWN_PIPE = "detol/tracking/wire.py"
"""Frames between two processes of the same program on the same machine."""
LOADERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def faults(source: str) -> list[str]:
    """Return what in a source would unpickle."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in LOADERS]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LOADERS:
            found.append(str(node.module))
        elif isinstance(node, ast.Call):
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if given.get("allow_pickle", "False") != "False":
                found.append("allow_pickle")
            if ast.unparse(node.func) in ("torch.load", "pd.read_pickle") and given.get("weights_only") != "True":
                found.append(ast.unparse(node.func))
    return found


def test_nothing_is_unpickled_but_what_came_through_our_own_pipe() -> None:
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
    }
    assert {place: found for place, text in sources.items() if (found := faults(text))} == {OWN_PIPE: ["pickle"]}


def test_what_it_looks_for_is_found() -> None:
    assert faults("import torch\ntorch.load(path)") == ["torch.load"]
    assert faults("import torch\ntorch.load(path, weights_only=True)") == []
    assert faults("from joblib import load") == ["joblib"]
    assert faults("np.load(path, allow_pickle=True)") == ["allow_pickle"]
