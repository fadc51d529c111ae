"""Where a judge runs: in this process with vLLM or transformers, or behind an OpenAI-compatible server."""
