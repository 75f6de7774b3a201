//! A case: everything that decides what happens in one simulated world. Plain data, which a person can read and the
//! shrinker can cut.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dice::Dice;
use crate::flows;

/// One simulated world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Decides outcomes and delays of attempts, by the place of each.
    pub seed: u64,
    /// The flow of each run.
    pub flows: Vec<Value>,
    /// What is done to the world, and when.
    pub acts: Vec<Act>,
    /// How badly executors and the disk behave.
    pub weather: Weather,
}

/// Something that is done to the world before its `at`-th move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Act {
    /// Moves that come before.
    pub at: u64,
    /// What.
    #[serde(flatten)]
    pub deed: Deed,
}

/// What is done to the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Deed {
    /// `kill -9` of the engine. A commit that was under way is on disk or is not.
    Crash {
        /// Whether that commit is on disk.
        written: bool,
        /// How long nobody is there, ms.
        down: u64,
        /// How far the clock jumps meanwhile, ms; below 0: it is set back.
        jump: i64,
    },
    /// The next commit fails.
    StoreFails {
        /// No space left, else another error.
        full: bool,
        /// The error came after the disk had it all.
        written: bool,
    },
    /// The engine loses its lock, another one takes over, and the first does not know.
    Zombie,
    /// Somebody cancels a run, or one activation of it.
    Cancel {
        /// Which run.
        run: usize,
        /// Which of the activations that are live, counted round; absent: the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<usize>,
        /// Through the store, else by a call.
        posted: bool,
    },
    /// Somebody answers a question, well or not.
    Answer {
        /// Which of the open questions, counted round.
        question: usize,
        /// The answer does not fit.
        wrong: bool,
        /// How often it is sent.
        times: u64,
        /// Through the store, else by a call.
        posted: bool,
    },
    /// A message for an inbox.
    Signal {
        /// Which run.
        run: usize,
        /// Which inbox: `ping`, else `pong`.
        ping: bool,
        /// How often it is sent, under one id.
        times: u64,
        /// The value does not fit the inbox.
        wrong: bool,
        /// Through the store, else by a call.
        posted: bool,
    },
    /// A run is stopped at a clean point.
    Pause {
        /// Which run.
        run: usize,
    },
    /// The engine is stopped, at clean points or at once.
    Shutdown {
        /// Does not wait for what is under way.
        now: bool,
    },
    /// A run is forked.
    Fork {
        /// Which run.
        run: usize,
        /// At which of its turns, counted round.
        turn: u64,
    },
    /// The machine's clock jumps ahead, ms.
    Jump {
        /// How far.
        ms: u64,
    },
}

/// How badly things behave, as shares of 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weather {
    /// Attempts that do not succeed.
    pub failing: u64,
    /// Reports that come twice.
    pub twice: u64,
    /// Longest commit, ms.
    pub disk_ms: u64,
    /// A run that only waits leaves memory after this long, ms.
    pub park_ms: u64,
    /// Runs in memory at most.
    pub live_runs: u64,
}

impl Case {
    /// The case of a seed.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let runs = 1 + dice.roll(3);
        let flows = (0..runs)
            .map(|run| flows::random(seed.wrapping_mul(8).wrapping_add(run)))
            .collect();
        let mut acts: Vec<Act> = (0..dice.roll(9))
            .map(|_| Act {
                at: dice.roll(120),
                deed: deed(&mut dice, runs as usize),
            })
            .collect();
        acts.sort_by_key(|act| act.at);
        let weather = Weather {
            failing: *dice.pick(&[0, 10, 30, 60]),
            twice: *dice.pick(&[0, 0, 20]),
            disk_ms: *dice.pick(&[0, 5, 500]),
            park_ms: *dice.pick(&[0, 50, 60_000]),
            live_runs: *dice.pick(&[1, 2, 100]),
        };
        Self {
            seed,
            flows,
            acts,
            weather,
        }
    }
}

fn deed(dice: &mut Dice, runs: usize) -> Deed {
    let run = dice.roll(runs as u64) as usize;
    let posted = dice.one_in(2);
    match dice.roll(14) {
        0..=3 => Deed::Crash {
            written: dice.one_in(2),
            down: *dice.pick(&[0, 1_000, 120_000]),
            jump: *dice.pick(&[0, 0, 3_600_000, -5_000]),
        },
        4 => Deed::StoreFails {
            full: dice.one_in(2),
            written: dice.one_in(3),
        },
        5 => Deed::Zombie,
        6 => Deed::Cancel {
            run,
            step: dice.one_in(2).then(|| dice.roll(20) as usize),
            posted,
        },
        7 | 8 => Deed::Answer {
            question: dice.roll(5) as usize,
            wrong: dice.one_in(3),
            times: 1 + dice.roll(2),
            posted,
        },
        9 | 10 => Deed::Signal {
            run,
            ping: dice.one_in(2),
            times: 1 + dice.roll(2),
            wrong: dice.one_in(4),
            posted,
        },
        11 => Deed::Pause { run },
        12 => Deed::Shutdown {
            now: dice.one_in(2),
        },
        _ if dice.one_in(3) => Deed::Jump {
            ms: *dice.pick(&[1, 10_000, 7_200_000]),
        },
        _ => Deed::Fork {
            run,
            turn: dice.roll(40),
        },
    }
}
