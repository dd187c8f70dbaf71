"""What the pages say of tables, SQL and other tools' names can be checked: it is."""

import re
from xml.etree import ElementTree

import pytest

from detol.results.query import Query
from detol.results.schema import VERSION_TABLE, metadata
from detol.results.store import Database


def test_every_table_is_told_with_its_key(docs):
    page = (docs / "results.md").read_text().partition("## The tables")[2].partition("\nScores are")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", page, flags=re.MULTILINE))
    assert set(rows) == {*metadata.tables, VERSION_TABLE}
    for name, table in metadata.tables.items():
        for column in table.primary_key.columns:
            assert re.search(rf"\b{column.name}\b", rows[name]), f"{name}: {column.name} is part of its key"


def test_statements_run(docs, tmp_path):
    statements = re.findall(r"^```sql\n(.*?)^```", (docs / "results.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    assert len(statements) >= 3
    with Database(tmp_path / "results.db") as database:
        for statement in statements:
            assert Query(database).sql(statement).columns


@pytest.mark.parametrize("digest", ["d1", "x1", "r1", "p1"])
def test_digests_begin_as_told(docs, digest):
    from detol.graph.digest import digest as of
    from detol.graph.ops import op
    from detol.graph.topology import chain
    from detol.results.rules import PUBLISHED
    from detol.search.recipe import Recipe
    from detol.workers.data import read

    begins = {
        "d1": of(chain(op("identity"))),
        "r1": Recipe().digest,
        "p1": f"{PUBLISHED}:",
        "x1": read("iris").digest,
    }
    assert begins[digest].startswith(f"{digest}:")
    assert f"`{digest}:...`" in (docs / "results.md").read_text()


def test_the_picture_is_one_that_any_page_can_show(docs):
    root = ElementTree.parse(docs / "data-flow.svg").getroot()
    assert root.tag.endswith("}svg")
    names = [name for element in root.iter() for name in element.attrib if "href" in name or name.startswith("on")]
    assert not names  # nothing is fetched, nothing runs
    width, height = (float(value) for value in root.attrib["viewBox"].split()[2:])
    for element in root.iter():
        if element.tag.endswith("}text"):
            assert 0 < float(element.attrib["x"]) < width
            assert 0 < float(element.attrib["y"]) < height


def test_every_page_is_in_the_index(docs):
    index = (docs / "index.md").read_text()
    for page in [*docs.glob("*.md"), *docs.glob("*.ipynb")]:
        assert page.name == "index.md" or f"({page.name})" in index, page.name
