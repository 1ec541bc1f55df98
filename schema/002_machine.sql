-- What is known of machines apart from runs: reports of `exp doctor`, rows of `exp bench`.

-- machine: what a run's environment and a report have in common (record::MachineIdentity): the GPUs'
-- uuids, or host and CPU where there is none.
CREATE TABLE doctor (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  created_ns INTEGER NOT NULL,            -- Unix time
  machine TEXT NOT NULL,
  host TEXT NOT NULL,
  level TEXT NOT NULL,                    -- 'ok', 'absent', 'warning', 'error': the worst finding
  deep INTEGER NOT NULL,                  -- 1: --deep
  seconds REAL NOT NULL,
  environment_document TEXT REFERENCES document(hash),
  report TEXT NOT NULL                    -- JSON, docs/doctor.md
);
CREATE INDEX doctor_machine ON doctor(machine, created_ns);

-- One call of `exp bench`.
CREATE TABLE bench (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,              -- 8 hex digits
  created_ns INTEGER NOT NULL,
  label TEXT NOT NULL,                    -- --label
  machine TEXT NOT NULL,
  host TEXT NOT NULL,
  device TEXT NOT NULL,                   -- 'NVIDIA H200, driver 580.159.03, cuDNN 9.19.0'
  command TEXT NOT NULL,                  -- JSON array
  matrix TEXT NOT NULL,                   -- JSON: the resolved matrix
  speeds TEXT NOT NULL DEFAULT '{}',      -- JSON: measured copy and matrix speeds by precision
  environment_document TEXT REFERENCES document(hash)
);
CREATE INDEX bench_machine ON bench(machine, created_ns);

CREATE TABLE bench_row (
  bench INTEGER NOT NULL REFERENCES bench(id) ON DELETE CASCADE,
  position INTEGER NOT NULL,              -- 0, 1, ... in the order measured
  program TEXT NOT NULL,                  -- 'exp', 'torch'
  kind TEXT NOT NULL,                     -- 'step', 'loader', 'end_to_end'
  model TEXT NOT NULL,
  batch INTEGER NOT NULL,
  precision TEXT NOT NULL,
  device TEXT NOT NULL,                   -- 'cpu', 'cuda:0'
  mode TEXT NOT NULL,                     -- 'graph fused deterministic', ...: the rest of what tells cases apart
  status TEXT NOT NULL,                   -- 'ok', 'mem lim', 'fail'
  reason TEXT NOT NULL,
  images_per_second REAL,
  milliseconds REAL,                      -- a step
  spread REAL,                            -- (slowest - fastest) / median of the repeats
  bytes INTEGER,                          -- planned, on the device
  watts REAL,
  throttled TEXT NOT NULL DEFAULT '',     -- what held the clocks down
  result TEXT NOT NULL,                   -- JSON, docs/bench.md
  PRIMARY KEY (bench, position)
) WITHOUT ROWID;
CREATE INDEX bench_row_model ON bench_row(model, batch, precision);
