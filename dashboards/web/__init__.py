"""Pages and a JSON API over the results database, for a browser: ``detol dashboard``.

Everything is made on the server, read-only, and without the network: HTML by templates, charts as SVG, one small style
sheet and one small script. A page that shows a running search asks every two seconds whether anything changed.
"""
