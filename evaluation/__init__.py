"""How good verdicts are, and whether they moved: metrics, shortcut baselines, reports.

Pure arithmetic over verdicts that were already reached; neither torch nor an engine is imported.
"""
