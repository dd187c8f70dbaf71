"""Embeddings of topologies: analytical features, and learned encoders and decoders over the graph."""
