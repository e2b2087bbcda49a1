"""From the files a pipeline has (TFRecord, CSV, Parquet, ORC) to training ORC, and back to TFRecord."""
