"""Benchmarks of search strategies on tables of published results, without training."""

from detol.bench.answer import answer, open_table
from detol.bench.compare import Entry, compare
from detol.bench.run import Protocol
from detol.bench.table import BenchTable

__all__ = ["BenchTable", "Entry", "Protocol", "answer", "compare", "open_table"]
