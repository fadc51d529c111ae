"""Neural encoders for metrics: where their weights are, on which device they run, and how texts are batched."""
