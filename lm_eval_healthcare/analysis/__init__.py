"""Statistics over scores, without torch and without the harness."""
