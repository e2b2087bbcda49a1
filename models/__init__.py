"""Ranker models built from tf-keras layers; nothing here knows where embeddings are stored."""
