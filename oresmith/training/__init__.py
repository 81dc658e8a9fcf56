"""Training steps on the corpus: SFT, rejection, teacher, KTO, Dr. GRPO (docs/training.md)."""
