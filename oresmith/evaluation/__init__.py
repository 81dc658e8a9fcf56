"""Evaluation of models in the arena: rollouts, their scores, and statistics that say how much a score can tell."""
