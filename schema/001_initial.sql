-- The store's tables, as first released. schema/README.md explains them; never edit this file, add the
-- next number instead.

-- Large JSON texts that many runs share, by the xxh128 of their bytes.
CREATE TABLE document (
  hash TEXT PRIMARY KEY,
  kind TEXT NOT NULL,   -- 'config', 'environment', 'code'
  json TEXT NOT NULL
) WITHOUT ROWID;

-- Content-addressed bytes: patches, untracked files, config sources, image lists.
CREATE TABLE object (
  hash TEXT PRIMARY KEY,
  bytes INTEGER NOT NULL,
  data BLOB NOT NULL
);

CREATE TABLE run (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of runs: clocks may be set back, this can't
  id TEXT NOT NULL UNIQUE,                -- 12 hex digits
  name TEXT NOT NULL,
  kind TEXT NOT NULL,                     -- 'train', 'command', 'library', 'bench'
  created_ns INTEGER NOT NULL,            -- Unix time
  command TEXT NOT NULL,                  -- JSON array: the command line, without secrets
  cwd TEXT NOT NULL,
  work_dir TEXT NOT NULL,
  seed TEXT,                              -- decimal, 0 .. 2^64-1
  threads INTEGER,
  device TEXT,
  config_file TEXT,
  config_hash TEXT,                       -- identity of the canonical config
  config_document TEXT REFERENCES document(hash),
  environment_document TEXT REFERENCES document(hash),
  code_document TEXT REFERENCES document(hash),
  parent INTEGER REFERENCES run(seq) ON DELETE SET NULL,
  parent_id TEXT,                         -- kept when the parent is removed
  relation TEXT,                          -- 'reproduces', 'continues'
  redactions TEXT NOT NULL DEFAULT '[]',  -- JSON: [{"kind":..,"place":..}]
  verdict TEXT                            -- JSON, of a reproduction
);
CREATE INDEX run_name ON run(name);
CREATE INDEX run_config_hash ON run(config_hash);
CREATE INDEX run_parent ON run(parent);

CREATE TABLE tag (
  run INTEGER NOT NULL REFERENCES run(seq) ON DELETE CASCADE,
  tag TEXT NOT NULL,
  PRIMARY KEY (run, tag)
) WITHOUT ROWID;

-- One process that worked on a run; a resumed run has several.
CREATE TABLE attempt (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(seq) ON DELETE CASCADE,
  number INTEGER NOT NULL,                -- 1, 2, ...
  started_ns INTEGER NOT NULL,
  ended_ns INTEGER,
  state TEXT,                             -- NULL: running, or killed when the process is gone
  reason TEXT NOT NULL DEFAULT '',
  pid INTEGER NOT NULL,
  pid_start INTEGER NOT NULL,             -- clock ticks since boot (/proc/PID/stat, field 22)
  pid_namespace INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  host TEXT NOT NULL,
  heartbeat_ns INTEGER NOT NULL,          -- last write
  start_epoch INTEGER NOT NULL DEFAULT 0, -- what it resumed from: everything at or after is superseded
  start_step INTEGER NOT NULL DEFAULT 0,
  checkpoint TEXT,                        -- hash of the checkpoint that it resumed from
  oom_kills INTEGER,                      -- cgroup's count at the start, to explain a killed run
  lost_points INTEGER NOT NULL DEFAULT 0,
  start TEXT NOT NULL DEFAULT '{}',       -- JSON: what the trainer said when it began
  environment_document TEXT REFERENCES document(hash),  -- as the run's, taken again by each attempt
  code_document TEXT REFERENCES document(hash),
  UNIQUE (run, number)
);

-- The resolved config, one leaf a row; the value is JSON, `number` its numeric value where it has one.
CREATE TABLE config_value (
  run INTEGER NOT NULL REFERENCES run(seq) ON DELETE CASCADE,
  path TEXT NOT NULL,                     -- 'optimizer.lr', 'data.train.pipeline.0.type'
  value TEXT NOT NULL,
  number REAL,
  origin TEXT NOT NULL,                   -- 'configs/a.yaml:3:7', '--set #2'
  history TEXT NOT NULL DEFAULT '[]',     -- JSON, oldest first: [{"origin":..,"value":..}]
  PRIMARY KEY (run, path)
) WITHOUT ROWID;
CREATE INDEX config_value_path ON config_value(path);

CREATE TABLE config_source (
  run INTEGER NOT NULL REFERENCES run(seq) ON DELETE CASCADE,
  path TEXT NOT NULL,
  object TEXT NOT NULL REFERENCES object(hash),
  PRIMARY KEY (run, path)
) WITHOUT ROWID;

CREATE TABLE override (
  run INTEGER NOT NULL REFERENCES run(seq) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (run, position)
) WITHOUT ROWID;

-- Objects that a run's code state or data fingerprint names; keeps them from `exp gc`.
CREATE TABLE run_object (
  run INTEGER NOT NULL REFERENCES run(seq) ON DELETE CASCADE,
  object TEXT NOT NULL REFERENCES object(hash),
  role TEXT NOT NULL,                     -- 'patch', 'file', 'manifest', 'images'
  PRIMARY KEY (run, object, role)
) WITHOUT ROWID;
CREATE INDEX run_object_object ON run_object(object);
CREATE INDEX config_source_object ON config_source(object);

CREATE TABLE dataset (
  run INTEGER NOT NULL REFERENCES run(seq) ON DELETE CASCADE,
  role TEXT NOT NULL,                     -- 'train', 'val', 'test'
  ann_file TEXT NOT NULL,
  ann_hash TEXT NOT NULL,
  img_prefix TEXT NOT NULL,
  images INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  missing INTEGER NOT NULL,
  mode TEXT NOT NULL,                     -- 'full': every byte hashed; 'cheap': names and sizes only
  fingerprint TEXT NOT NULL,              -- hash of annotation hash and image list
  image_list TEXT REFERENCES object(hash),-- lines 'HASH SIZE NAME'
  PRIMARY KEY (run, role)
) WITHOUT ROWID;

-- A curve: the points of one name in one attempt.
CREATE TABLE series (
  id INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL REFERENCES attempt(id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  UNIQUE (attempt, name)
);

-- value: REAL or INTEGER; an 8-byte little-endian BLOB for what SQLite would alter (NaN, -0.0);
-- TEXT is JSON (strings in quotes, lists). View `curve` shows NaN as NULL.
CREATE TABLE point (
  series INTEGER NOT NULL REFERENCES series(id) ON DELETE CASCADE,
  n INTEGER NOT NULL,                     -- 0, 1, ... in the order written
  step INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,                 -- since the attempt's start, by the monotonic clock
  value NOT NULL,
  PRIMARY KEY (series, n)
) WITHOUT ROWID;

CREATE TABLE epoch (
  id INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL REFERENCES attempt(id) ON DELETE CASCADE,
  epoch INTEGER NOT NULL,                 -- 0-based
  step INTEGER NOT NULL,                  -- optimizer steps done
  ended_ns INTEGER NOT NULL,
  train_seconds REAL, eval_seconds REAL, data_seconds REAL,
  images_per_second REAL,
  weights_hash TEXT, optimizer_hash TEXT, -- NULL where the trainer gave none
  UNIQUE (attempt, epoch)
);

CREATE TABLE epoch_value (
  epoch INTEGER NOT NULL REFERENCES epoch(id) ON DELETE CASCADE,
  kind TEXT NOT NULL,                     -- 'loss' (mean over steps), 'metric', 'gpu'
  position INTEGER NOT NULL,              -- order in which they were reported
  name TEXT NOT NULL,
  value NOT NULL,                         -- as point.value
  PRIMARY KEY (epoch, kind, name)
) WITHOUT ROWID;

CREATE TABLE checkpoint (
  id INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL REFERENCES attempt(id) ON DELETE CASCADE,
  path TEXT NOT NULL,
  hash TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  at_ns INTEGER NOT NULL
);
CREATE INDEX checkpoint_hash ON checkpoint(hash);
CREATE INDEX checkpoint_attempt ON checkpoint(attempt);

CREATE TABLE warning (
  id INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL REFERENCES attempt(id) ON DELETE CASCADE,
  code TEXT NOT NULL,
  message TEXT NOT NULL,
  step INTEGER NOT NULL,                  -- -1: not tied to a step
  at_ns INTEGER NOT NULL
);
CREATE INDEX warning_attempt ON warning(attempt);

-- The newest value of each curve and of each epoch's numbers, for lists and filters.
CREATE TABLE summary (
  run INTEGER NOT NULL REFERENCES run(seq) ON DELETE CASCADE,
  kind TEXT NOT NULL,                     -- 'step', 'loss', 'metric', 'gpu'
  name TEXT NOT NULL,
  step INTEGER NOT NULL,
  last NOT NULL,                          -- as point.value
  low REAL, high REAL,                    -- over finite values
  count INTEGER NOT NULL,
  PRIMARY KEY (run, kind, name)
) WITHOUT ROWID;
CREATE INDEX summary_name ON summary(kind, name);

-- What is current: a resumed attempt supersedes what earlier ones did at or after its start.
CREATE VIEW live_series AS
  SELECT s.id, s.name, a.run, a.id AS attempt, a.number,
         (SELECT min(b.start_step) FROM attempt b WHERE b.run = a.run AND b.number > a.number) AS before
  FROM series s JOIN attempt a ON a.id = s.attempt;

CREATE VIEW curve AS
  SELECT r.id AS run, l.name, p.step, p.at_ms, l.number AS attempt,
         CASE typeof(p.value) WHEN 'blob' THEN CASE hex(p.value) WHEN '0000000000000080' THEN 0.0 END
         ELSE p.value END AS value
  FROM live_series l JOIN run r ON r.seq = l.run JOIN point p ON p.series = l.id
  WHERE l.before IS NULL OR p.step < l.before;

CREATE VIEW live_epoch AS
  SELECT e.*, a.run, a.number FROM epoch e JOIN attempt a ON a.id = e.attempt
  WHERE NOT EXISTS (SELECT 1 FROM attempt b
                    WHERE b.run = a.run AND b.number > a.number AND b.start_epoch <= e.epoch);
