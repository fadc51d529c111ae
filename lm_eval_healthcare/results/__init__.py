"""The harness's results and sample files: finding, reading and writing them, without the harness."""
