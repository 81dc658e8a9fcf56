"""ShoppingBench itself: problems, catalogue, outcome scorer and tool schema."""
