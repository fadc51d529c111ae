"""What people look at: figures and text made from numbers that other modules computed."""
