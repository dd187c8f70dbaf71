"""detol in a notebook: a search as an object that shows itself, tables as DataFrames, figures by plotly."""
