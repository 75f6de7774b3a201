//! The live feed: what observers see of runs as they go on.
//!
//! Turns come from the durable prefix only, in order, each once; text is provisional and never recorded. An observer
//! that is too slow is told how many items it missed and never holds the engine up: what it missed of the turns is in
//! the log.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::time::Duration;

use ravel_core::event::{Attempt, Turn};

use crate::message::Ending;

/// One thing that an observer sees.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedItem {
    /// Turns of a run that are on disk.
    Turns {
        /// The run.
        run: Arc<str>,
        /// The turns, in order.
        turns: Arc<Vec<Turn>>,
    },
    /// Live text of an attempt. Provisional: the attempt may still fail.
    Text {
        /// The run.
        run: Arc<str>,
        /// The step.
        path: Arc<str>,
        /// The attempt.
        attempt: Attempt,
        /// The text since the last item.
        text: Arc<str>,
    },
    /// A run left this engine.
    Ended {
        /// The run.
        run: Arc<str>,
        /// How.
        ending: Ending,
    },
    /// Items that came while the observer's queue was full, and are gone.
    Lagged {
        /// How many.
        missed: u64,
    },
}

/// What became of an offered item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The observer has it.
    Taken,
    /// The observer is behind.
    Full,
    /// Nobody listens any more.
    Gone,
}

/// Somebody who watches. Called on the engine's thread: must not block.
pub trait Observer: Send {
    /// Offers one item.
    fn offer(&mut self, item: FeedItem) -> Offer;
}

impl Observer for SyncSender<FeedItem> {
    fn offer(&mut self, item: FeedItem) -> Offer {
        match self.try_send(item) {
            Ok(()) => Offer::Taken,
            Err(TrySendError::Full(_)) => Offer::Full,
            Err(TrySendError::Disconnected(_)) => Offer::Gone,
        }
    }
}

/// The receiving end of a subscription. Ends when the run left the engine, or the engine stopped.
#[derive(Debug)]
pub struct Feed {
    items: Receiver<FeedItem>,
}

impl Feed {
    /// A feed of at most `most` waiting items, and its other end.
    pub(crate) fn bounded(most: usize) -> (SyncSender<FeedItem>, Self) {
        let (sender, items) = sync_channel(most);
        (sender, Self { items })
    }

    /// The next item; waits for it. `None`: there will be none.
    #[must_use]
    pub fn next(&self) -> Option<FeedItem> {
        self.items.recv().ok()
    }

    /// The next item if it is there.
    ///
    /// # Errors
    /// [`TryRecvError`] when there is none now, or never will be.
    pub fn try_next(&self) -> Result<FeedItem, TryRecvError> {
        self.items.try_recv()
    }

    /// The next item; waits for it at most so long.
    ///
    /// # Errors
    /// [`RecvTimeoutError`] when none came, or never will.
    pub fn next_within(&self, most: Duration) -> Result<FeedItem, RecvTimeoutError> {
        self.items.recv_timeout(most)
    }
}

impl Iterator for Feed {
    type Item = FeedItem;

    fn next(&mut self) -> Option<FeedItem> {
        Self::next(self)
    }
}

struct Watcher {
    observer: Box<dyn Observer>,
    missed: u64,
}

impl Watcher {
    /// False when nobody listens any more.
    fn show(&mut self, item: FeedItem) -> bool {
        if self.missed > 0 {
            match self.observer.offer(FeedItem::Lagged {
                missed: self.missed,
            }) {
                Offer::Taken => self.missed = 0,
                Offer::Full => {
                    self.missed += 1;
                    return true;
                }
                Offer::Gone => return false,
            }
        }
        match self.observer.offer(item) {
            Offer::Taken => true,
            Offer::Full => {
                self.missed += 1;
                true
            }
            Offer::Gone => false,
        }
    }
}

/// All observers of an engine.
#[derive(Default)]
pub(crate) struct Hub {
    everything: Vec<Watcher>,
    by_run: HashMap<Arc<str>, Vec<Watcher>>,
}

impl Hub {
    /// Adds an observer of one run, or of all.
    pub(crate) fn add(&mut self, run: Option<Arc<str>>, observer: Box<dyn Observer>) {
        let watcher = Watcher {
            observer,
            missed: 0,
        };
        match run {
            Some(run) => self.by_run.entry(run).or_default().push(watcher),
            None => self.everything.push(watcher),
        }
    }

    /// True when somebody watches this run.
    pub(crate) fn watches(&self, run: &str) -> bool {
        !self.everything.is_empty() || (!self.by_run.is_empty() && self.by_run.contains_key(run))
    }

    /// Observers at present.
    pub(crate) fn len(&self) -> usize {
        self.everything.len() + self.by_run.values().map(Vec::len).sum::<usize>()
    }

    /// Shows an item about a run.
    pub(crate) fn show(&mut self, run: &str, item: &FeedItem) {
        self.everything
            .retain_mut(|watcher| watcher.show(item.clone()));
        if let Some(watchers) = self.by_run.get_mut(run) {
            watchers.retain_mut(|watcher| watcher.show(item.clone()));
            if watchers.is_empty() || matches!(item, FeedItem::Ended { .. }) {
                self.by_run.remove(run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> FeedItem {
        FeedItem::Text {
            run: "r".into(),
            path: "a".into(),
            attempt: Attempt { node: 1, number: 1 },
            text: text.into(),
        }
    }

    #[test]
    fn an_observer_that_is_behind_is_told_how_much_it_missed() {
        let mut hub = Hub::default();
        let (sender, feed) = Feed::bounded(2);
        hub.add(None, Box::new(sender));
        for index in 0..5 {
            hub.show("r", &text(&index.to_string()));
        }
        assert_eq!(
            (feed.try_next(), feed.try_next()),
            (Ok(text("0")), Ok(text("1")))
        );
        hub.show("r", &text("5"));
        assert_eq!(
            (feed.try_next(), feed.try_next()),
            (Ok(FeedItem::Lagged { missed: 3 }), Ok(text("5")))
        );
    }

    #[test]
    fn an_observer_of_one_run_sees_nothing_of_others_and_ends_with_it() {
        let mut hub = Hub::default();
        let (sender, feed) = Feed::bounded(8);
        hub.add(Some("r".into()), Box::new(sender));
        hub.show("other", &text("x"));
        let why = crate::error::EngineError::Paused { run: "r".into() };
        let ended = FeedItem::Ended {
            run: "r".into(),
            ending: Ending::Left(why),
        };
        hub.show("r", &ended);
        assert_eq!(feed.try_next(), Ok(ended));
        assert_eq!(
            (feed.try_next(), hub.len()),
            (Err(TryRecvError::Disconnected), 0)
        );
    }

    #[test]
    fn an_observer_that_is_gone_is_forgotten() {
        let mut hub = Hub::default();
        let (sender, feed) = Feed::bounded(8);
        hub.add(None, Box::new(sender));
        drop(feed);
        hub.show("r", &text("x"));
        assert_eq!(hub.len(), 0);
    }
}
