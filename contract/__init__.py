"""What the model is asked and how its reply is read.

Standard library only, and it imports nothing of ours: training, evaluation and service all stand
on this package, so that a model is never served under other words than it was trained on.
"""
