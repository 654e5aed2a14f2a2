"""Token estimators, the trimmer and its report, the max-tokens step, the inspector."""
