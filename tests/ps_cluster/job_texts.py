"""Job files that are right, one field a line, for tests to break."""

from __future__ import annotations

from pathlib import Path

LOCAL = """\
name: movie-clicks
data:
  train:
    - train.orc
    - more/*.orc
  test:
    - test.orc
  label: label
  shuffle_rows: 1000
features:
  - name: user_id
    kind: id
    table: users
    missing: -1
  - name: item_id
    kind: id
    column: item
    table: items
  - name: history
    kind: id_list
    table: items
    pooling: none
    query: item_id
    max_length: 50
    missing: empty
  - name: genres
    kind: id_list
    dim: 8
    pooling: sqrtn
  - name: user_share
    kind: dense
    missing: 0
tables:
  users:
    dim: 16
    initializer:
      kind: normal
      scale: 0.05
    optimizer:
      name: adagrad
      learning_rate: 0.05
      initial_accumulator: 0.0
      epsilon: 1e-10
  items:
    dim: 16
model:
  name: rankmixer
  tokens: 2
  dim: 32
  layers: 1
  expansion: 2
  gelu: tanh
  dropout: 0.1
  epsilon: 1e-5
  groups:
    - [user_id, user_share]
    - [item_id, history, genres]
optimizers:
  sparse:
    name: adam
    learning_rate: 1e-3
    beta_1: 0.8
    beta_2: 0.99
    epsilon: 1e-8
  dense:
    name: adamw
    learning_rate: 1e-3
    weight_decay: 0.01
schedule:
  warmup_steps: 100
  decay: exponential
  decay_steps: 900
  final: 0.1
training:
  batch_size: 512
  epochs: 2
  seed: 7
  max_steps: 1000
  sparse_updates: asynchronous
  log_every_steps: 10
cluster:
  ps: 1
  workers: 2
output: run
"""

REMOTE = """\
name: remote
data:
  train:
    - /samples/train
  label: click
features:
  - name: user_id
    kind: id
    dim: 4
  - name: price
    kind: dense
    column: price_eur
model:
  name: dcn
  cross_layers: 2
  hidden:
    - 16
  dropout: 0.2
optimizers:
  sparse:
    name: sgd
    learning_rate: 0.1
  dense:
    name: sgd
    learning_rate: 0.1
training:
  batch_size: 8
cluster:
  ps: 2
  workers: 2
  ps_addresses:
    - ps-0.job:4000
    - ps-1.job:4000
  worker_addresses:
    - worker-0.job:4000
    - worker-1.job:4000
  rendezvous_address: worker-0.job:4001
output: /output
"""

DEEPFM = """\
name: small
data:
  train:
    - train.orc
  label: click
features:
  - name: user_id
    kind: id
    dim: 4
model:
  name: deepfm
  hidden:
    - 16
  dropout: 0.2
optimizers:
  sparse:
    name: sgd
    learning_rate: 0.1
  dense:
    name: adam
    learning_rate: 0.1
training:
  batch_size: 8
cluster:
  ps: 0
output: run
"""

SAMPLING = """\
  label: click
  sampling:
    seed: 3
    time:
      column: time
      unit: seconds
    rules:
      - label: 0
        keep: 0.2
      - label: 0
        newest_hours: 24
        weight: 2
      - label: 0
        when: score > 0.8 and country in (3, 7)
        weight: 3.5
      - label: 0
        bands:
          column: item
          popularity: items.orc
          top_ids: [100, 10000]
          keep: [0.25, 0.5, 1]
      - bands:
          column: age
          bounds: [18, 30.5]
          weight: [1, 2, 1]
    replay:
      newest_days: 7
      newest_share: 0.7
      half_life_days: 14
"""
SAMPLED = DEEPFM.replace("  label: click\n", SAMPLING)

STORE = """\
name: store
data:
  train:
    - train.orc
  label: click
  time:
    column: time
features:
  - name: user_id
    kind: id
    table: users
  - name: item_id
    kind: id
    dim: 4
    admission:
      kind: exact
      threshold: 2
  - name: shop_id
    kind: id
    table: shops
tables:
  users:
    tiers:
      - dim: 4
        min_frequency: 0
      - dim: 8
        min_frequency: 10
      - dim: 32
        min_frequency: 100
    output: 16
    values: bfloat16
    admission:
      kind: bloom
      threshold: 3
      capacity: 100000
      error: 0.01
    eviction:
      max_age_steps: 1000
      max_age_hours: 48
      half_life_steps: 500.0
      min_frequency: 0.5
      max_bytes: 512MiB
    optimizer:
      name: ftrl
      learning_rate: 0.1
      l1: 0.01
      clip_norm: 1.0
  shops:
    dim: 6
    engine: tfra_cuckoo
embeddings:
  transport: float16
model:
  name: dcn
  cross_layers: 1
  hidden:
    - 16
optimizers:
  sparse:
    name: adamw
    learning_rate: 0.1
  dense:
    name: adam
    learning_rate: 0.1
training:
  batch_size: 8
checkpoint:
  every_steps: 100
  keep: 2
  deltas: 4
  warm_start:
    from: ../other/run
    tables:
      - users
output: run
"""

ALL = {"local": LOCAL, "remote": REMOTE, "deepfm": DEEPFM, "sampled": SAMPLED, "store": STORE}


def line_of(text: str, words: str) -> int:
    """Number of the one line that begins with `words`, indentation and dash aside."""
    lines = [
        number for number, line in enumerate(text.splitlines(), 1) if line.strip().removeprefix("- ").startswith(words)
    ]
    assert len(lines) == 1, (words, lines)
    return lines[0]


def write(folder: Path, text: str) -> Path:
    """The text as a job file."""
    path = folder / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return path
