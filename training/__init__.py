"""From labelled examples to weights that the service loads: data, warm start, GRPO, evaluation.

``python -m training run training/configs/smoke.toml`` runs every stage in seconds. It shares the
``contract`` with the service, and imports nothing else of it.
"""
