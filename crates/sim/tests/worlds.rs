//! Some worlds, every time; more with `ravel-sim run`.

use ravel_sim::{Case, simulate};

/// Worlds of the usual test run.
const SEEDS: u64 = 250;

#[test]
fn no_promise_is_broken_in_the_first_worlds() {
    for seed in 0..SEEDS {
        if let Err(violation) = simulate(&Case::random(seed)) {
            panic!("seed {seed}: {violation}\n(ravel-sim shrink {seed})");
        }
    }
}

#[test]
fn a_seed_lives_the_same_world_twice() {
    for seed in 0..20 {
        let case = Case::random(seed);
        let lives =
            [simulate(&case), simulate(&case)].map(|history| history.map(|history| history.hash()));
        assert_eq!(lives[0], lives[1], "seed {seed}");
    }
}

#[test]
fn a_case_survives_being_written_and_read() {
    for seed in 0..50 {
        let case = Case::random(seed);
        let text = serde_json::to_string(&case).expect("cases are plain data");
        let read: Case = serde_json::from_str(&text).expect("a written case reads");
        assert_eq!(read, case);
    }
}
