//! Values that an evaluation makes on its way, kept until it ends so that everything else can borrow.

use std::cell::{Cell, OnceCell};

use serde_json::Value;

use super::scope::Lookup;

/// One link of a growing chain. Links are never removed while the first one lives, so a `&'v Link` gives `&'v`
/// values without any lifetime of their own, and a result costs an allocation only where a value is really new.
#[derive(Default)]
pub(crate) struct Link {
    held: OnceCell<Held>,
    next: OnceCell<Box<Self>>,
}

pub(crate) enum Held {
    Json(Value),
    Lookup(Lookup),
}

/// The growing end of a chain that starts at a [`Link`] on the caller's stack.
pub(crate) struct Arena<'v> {
    end: Cell<&'v Link>,
}

impl<'v> Arena<'v> {
    pub(crate) fn new(first: &'v Link) -> Self {
        Self {
            end: Cell::new(first),
        }
    }

    pub(crate) fn hold(&self, held: Held) -> &'v Held {
        let link = self.end.get();
        let next = link.next.get_or_init(Box::default);
        self.end.set(next);
        link.held.get_or_init(|| held)
    }
}

impl Drop for Link {
    /// Unlinks one by one: the default would recurse once per link.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut link) = next {
            next = link.next.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_live_as_long_as_the_first_link() {
        let first = Link::default();
        let arena = Arena::new(&first);
        let held: Vec<&Held> = (0..100_000)
            .map(|n| arena.hold(Held::Json(Value::from(n))))
            .collect();
        assert!(matches!(held[0], Held::Json(Value::Number(n)) if n.as_u64() == Some(0)));
        assert!(matches!(held[99_999], Held::Json(Value::Number(n)) if n.as_u64() == Some(99_999)));
    }
}
