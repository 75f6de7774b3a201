# Work on Ravel. `just` lists the recipes.

_default:
    @just --list

# What CI runs: format, lint, docs, generated files, tests. Writes nothing.
check:
    .ci/run

# Format and apply what clippy can fix.
fix:
    cargo fmt --all
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged

# All tests.
test *ARGS:
    cargo nextest run --workspace {{ARGS}}

# Regenerate the reference pages from the code.
gen:
    RAVEL_UPDATE_REFERENCE=1 cargo nextest run -p ravel the_reference
    RAVEL_GENERATE=1 cargo nextest run -p ravel-io reference

# Benchmarks against the machine's own limits.
bench *ARGS:
    cargo run --release -p ravel-bench -- {{ARGS}}

# Simulated worlds: `just sim run --seeds 0..20000`, `just sim shrink 7`.
sim *ARGS:
    cargo run --profile sim -p ravel-sim -- {{ARGS}}

# Deliberate bugs, and how many simulated worlds it takes to notice each.
mutants *ARGS:
    cargo run --profile sim -p ravel-sim --features mutants -- mutants {{ARGS}}

# The crash matrix as a table: `just crash --kills 200 --seed 7`, `just crash --row disk --json`.
crash *ARGS:
    cargo test --quiet -p ravel --test matrix -- --report {{ARGS}}
