"""The report of one search: a self-contained HTML file, and its pictures as PNG.

Reads ``detol.results.query`` alone. Pictures are described once (:mod:`~detol.dashboards.report.picture`) and drawn by
plotly in the page and by matplotlib as PNG, which needs no browser.
"""
