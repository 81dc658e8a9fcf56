"""The corpus: which rows are published, in which config, and the Parquet files that hold them."""
