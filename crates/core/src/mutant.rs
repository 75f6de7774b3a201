//! Deliberate bugs: a check that finds no bug when there is one is worth nothing.
//!
//! Without the feature `mutants` (never in a released binary) [`is`] is `false` for every one of them, at compile time.
//! `ravel-sim mutants` switches them on one after the other and tells how many worlds it takes to notice.

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutant {
    /// A join is decided when all but one of its steps are settled.
    JoinFiresEarly = 1,
    /// A join of all takes a cancelled step for a good one.
    JoinTakesCancelled,
    /// A scope that is being cancelled goes on opening steps.
    CancelStartsSteps,
    /// What is settled is settled again when the scope around it is cut short.
    SettledTwice,
    /// A `once` of unknown fate is repeated like any other.
    OnceRepeatedBlindly,
    /// An effect of unknown fate is not noted for compensation.
    UnknownNotCompensated,
    /// A fork compensates effects that belong to the run it was forked from.
    ForkOwnsEffects,
    /// Money that others have reserved does not count.
    ReservationIgnored,
    /// The deadline of a question is not kept.
    QuestionNeverDue,
    /// A retry changes more than its event says.
    RetryBesideTheLog,
    /// A message that comes twice under one id counts twice.
    SignalTwice,
    /// An answer is not held to its form.
    AnswerUnchecked,
    /// A recovered run takes lost attempts for running ones.
    LostNotNoticed,
    /// One more item of a `for_each` runs than `parallel` allows.
    ItemBeyondParallel,
    /// A `repeat` goes one round beyond its `max`.
    RoundBeyondMax,
    /// Effects leave before their start is on disk.
    LeavesBeforeDisk,
    /// One permit more than `max` is granted.
    PermitBeyondMax,
    /// An attempt without an effect keeps its permits.
    PermitKept,
    /// A run that leaves memory is not woken.
    ParkedForEver,
    /// A reply is sent before what it rests on is on disk.
    ToldBeforeDisk,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::JoinFiresEarly,
        Self::JoinTakesCancelled,
        Self::CancelStartsSteps,
        Self::SettledTwice,
        Self::OnceRepeatedBlindly,
        Self::UnknownNotCompensated,
        Self::ForkOwnsEffects,
        Self::ReservationIgnored,
        Self::QuestionNeverDue,
        Self::RetryBesideTheLog,
        Self::SignalTwice,
        Self::AnswerUnchecked,
        Self::LostNotNoticed,
        Self::ItemBeyondParallel,
        Self::RoundBeyondMax,
        Self::LeavesBeforeDisk,
        Self::PermitBeyondMax,
        Self::PermitKept,
        Self::ParkedForEver,
        Self::ToldBeforeDisk,
    ];

    /// What is wrong, in one line.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::JoinFiresEarly => "a join is decided while one of its steps is open",
            Self::JoinTakesCancelled => "a join of all takes a cancelled step for a good one",
            Self::CancelStartsSteps => "a scope that is cut short goes on opening steps",
            Self::SettledTwice => "what is settled is settled again by a cancel",
            Self::OnceRepeatedBlindly => "a `once` of unknown fate is repeated",
            Self::UnknownNotCompensated => "an effect of unknown fate is not compensated",
            Self::ForkOwnsEffects => "a fork compensates the effects of the run it came from",
            Self::ReservationIgnored => "money that others have reserved does not count",
            Self::QuestionNeverDue => "the deadline of a question is lost",
            Self::RetryBesideTheLog => "a retry changes more than its event says",
            Self::SignalTwice => "a message that comes twice under one id counts twice",
            Self::AnswerUnchecked => "an answer is not held to its form",
            Self::LostNotNoticed => "a recovered run takes lost attempts for running ones",
            Self::ItemBeyondParallel => "one more item runs than `parallel` allows",
            Self::RoundBeyondMax => "a `repeat` goes one round beyond its `max`",
            Self::LeavesBeforeDisk => "an effect leaves before its start is on disk",
            Self::PermitBeyondMax => "one permit more than `max` is granted",
            Self::PermitKept => "an attempt without an effect keeps its permits",
            Self::ParkedForEver => "a run that left memory is not woken",
            Self::ToldBeforeDisk => "a reply is sent before what it rests on is on disk",
        }
    }
}

#[cfg(feature = "mutants")]
mod switch {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Mutant;

    static ON: AtomicU8 = AtomicU8::new(0);

    /// Whether this bug is in.
    #[inline]
    #[must_use]
    pub fn is(mutant: Mutant) -> bool {
        ON.load(Ordering::Relaxed) == mutant as u8
    }

    /// Puts one bug in, or none, for the whole process.
    pub fn set(mutant: Option<Mutant>) {
        ON.store(mutant.map_or(0, |mutant| mutant as u8), Ordering::Relaxed);
    }
}

#[cfg(feature = "mutants")]
pub use switch::{is, set};

/// Whether this bug is in: never, without the feature.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
#[must_use]
pub const fn is(_: Mutant) -> bool {
    false
}
