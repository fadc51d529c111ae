"""Which metrics, on which documents, with what coverage; answers saved before scoring, and read back afterwards."""
