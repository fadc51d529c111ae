"""The paper's studies of metrics: how much scores move when a model is asked again, and when an answer is reworded."""
