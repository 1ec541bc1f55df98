-- What `exp eval` measured of a run's weights after the training.

CREATE TABLE evaluation (
  run INTEGER NOT NULL REFERENCES run(seq) ON DELETE CASCADE,
  number INTEGER NOT NULL,                -- 1, 2, ... of this run
  at_ns INTEGER NOT NULL,                 -- Unix time
  host TEXT NOT NULL,
  device TEXT NOT NULL,                   -- 'cpu (...)', 'cuda:0 (NVIDIA H200, driver ...)'
  command TEXT NOT NULL,                  -- JSON array, without secrets
  weights TEXT NOT NULL,                  -- absolute path
  weights_hash TEXT NOT NULL,             -- xxh128 of the file: checkpoint.hash, where it is one of the run's
  part TEXT NOT NULL,                     -- 'train', 'val', 'test'
  ann_file TEXT NOT NULL,                 -- or the folder of a classifier's images
  ann_hash TEXT NOT NULL,                 -- xxh128 of its content; empty for a folder
  report TEXT NOT NULL,                   -- JSON: "metrics" by name, "classes", "confusion" (docs/record.md)
  PRIMARY KEY (run, number)
) WITHOUT ROWID;
