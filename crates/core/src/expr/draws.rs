//! `now()`, `random()`, `uuid()`: drawn once, recorded, and played back ever after.

use jiff::Timestamp;
use serde_json::Value;

use crate::value::Val;

/// What a draw is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawKind {
    /// `now()`: the time, as RFC 3339 text in UTC.
    Now,
    /// `random()`: a number from 0 to below 1.
    Random,
    /// `uuid()`: a UUID as text.
    Uuid,
}

impl DrawKind {
    fn name(self) -> &'static str {
        match self {
            Self::Now => "now()",
            Self::Random => "random()",
            Self::Uuid => "uuid()",
        }
    }
}

/// Where new draws come from. The core has neither clock nor randomness, so its caller hands one in.
pub trait DrawSource {
    /// A new value. Called once per draw, in the order of evaluation; the value is recorded.
    fn draw(&mut self, kind: DrawKind) -> Value;
}

/// The draws of one evaluation (or of several in a row).
pub struct Draws<'s> {
    mode: Mode<'s>,
    recorded: Vec<Val>,
}

enum Mode<'s> {
    Live(&'s mut dyn DrawSource),
    Replay(std::vec::IntoIter<Val>),
    Refuse,
}

impl<'s> Draws<'s> {
    /// Draws from a source and records.
    pub fn live(source: &'s mut dyn DrawSource) -> Self {
        Self {
            mode: Mode::Live(source),
            recorded: Vec::new(),
        }
    }

    /// Plays a recording back. A draw that the recording lacks fails the evaluation.
    pub fn replay(recorded: Vec<Val>) -> Self {
        Self {
            mode: Mode::Replay(recorded.into_iter()),
            recorded: Vec::new(),
        }
    }

    /// Allows no draw: for places where a value that changes has no meaning.
    pub fn refuse() -> Self {
        Self {
            mode: Mode::Refuse,
            recorded: Vec::new(),
        }
    }

    /// What was drawn so far, in order.
    pub fn recorded(&self) -> &[Val] {
        &self.recorded
    }

    /// What was drawn, in order.
    pub fn into_recorded(self) -> Vec<Val> {
        self.recorded
    }
}

/// Hides the lifetime of [`Draws`] from the evaluator.
pub(crate) trait Drawer {
    fn draw(&mut self, kind: DrawKind) -> Result<Value, String>;
}

impl Drawer for Draws<'_> {
    fn draw(&mut self, kind: DrawKind) -> Result<Value, String> {
        let value = match &mut self.mode {
            Mode::Live(source) => source.draw(kind),
            Mode::Replay(recorded) => {
                let ends = || format!("the recording ends before {} is drawn", kind.name());
                recorded.next().ok_or_else(ends)?.into_json()
            }
            Mode::Refuse => return Err(format!("{} is not available here", kind.name())),
        };
        self.recorded.push(Val::new(value.clone()));
        Ok(value)
    }
}

/// A source that is a function of a time and a seed: the n-th draw is a hash of both and n.
#[derive(Debug, Clone)]
pub struct SeededDraws {
    now_ms: i64,
    seed: blake3::Hasher,
    drawn: u64,
}

impl SeededDraws {
    /// `seed` must be unique to the place that draws: the run's seed, the path and the attempt.
    pub fn new(now_ms: i64, seed: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("ravel expression draws v1");
        hasher.update(seed);
        Self {
            now_ms,
            seed: hasher,
            drawn: 0,
        }
    }

    fn bytes(&mut self) -> [u8; 32] {
        let mut hasher = self.seed.clone();
        hasher.update(&self.drawn.to_le_bytes());
        self.drawn += 1;
        *hasher.finalize().as_bytes()
    }
}

/// A number below 2^53 is exact in a double.
const RANDOM_BITS: u32 = 53;

impl DrawSource for SeededDraws {
    fn draw(&mut self, kind: DrawKind) -> Value {
        match kind {
            DrawKind::Now => {
                let time =
                    Timestamp::from_millisecond(self.now_ms).unwrap_or(Timestamp::UNIX_EPOCH);
                Value::String(format!("{time:.3}"))
            }
            DrawKind::Random => {
                let bytes = self.bytes();
                let mut head = [0; 8];
                head.copy_from_slice(&bytes[..8]);
                let number = u64::from_le_bytes(head) >> (u64::BITS - RANDOM_BITS);
                Value::from(number as f64 / (1u64 << RANDOM_BITS) as f64)
            }
            DrawKind::Uuid => {
                let bytes = self.bytes();
                let mut head = [0; 16];
                head.copy_from_slice(&bytes[..16]);
                Value::String(
                    uuid::Builder::from_random_bytes(head)
                        .into_uuid()
                        .to_string(),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_gives_what_was_recorded_and_nothing_else() {
        let mut source = SeededDraws::new(1_700_000_000_123, b"run/path");
        let mut live = Draws::live(&mut source);
        let kinds = [DrawKind::Now, DrawKind::Random, DrawKind::Uuid];
        let drawn = kinds.map(|kind| live.draw(kind).unwrap());
        assert_eq!(drawn[0], "2023-11-14T22:13:20.123Z");
        let mut replay = Draws::replay(live.into_recorded());
        assert_eq!(kinds.map(|kind| replay.draw(kind).unwrap()), drawn);
        assert_eq!(
            replay.draw(DrawKind::Now),
            Err("the recording ends before now() is drawn".to_owned())
        );
        assert_eq!(
            Draws::refuse().draw(DrawKind::Now),
            Err("now() is not available here".to_owned())
        );
    }

    #[test]
    fn seeded_draws_are_a_function_of_the_seed() {
        let draw = |seed: &[u8]| SeededDraws::new(0, seed).draw(DrawKind::Random);
        assert_eq!(draw(b"a"), draw(b"a"));
        assert_ne!(draw(b"a"), draw(b"b"));
        let number = draw(b"a").as_f64().unwrap();
        assert!((0.0..1.0).contains(&number));
    }
}
