//! Finding secrets in text, whole or arriving in pieces, in any spelling.
//!
//! Each text is read in several views (see [`super::spelling`]) and each view is searched for all forms of all secrets
//! (see [`super::forms`]) by one automaton: a pass over the text, whatever it holds. A view costs nothing while it
//! reads the same as the text itself.
//!
//! What is found is a span of the text. Spans that overlap are one: it is called after the secret that begins first,
//! and after the longer one of two that begin together.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use secrecy::{ExposeSecret, SecretString};

use super::forms::forms;
use super::spelling::{Reader, Spelling, Unit, VIEWS};

/// What is looked for. Nothing when no secret is known.
#[derive(Default)]
pub(crate) struct Patterns(Option<Finder>);

impl fmt::Debug for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms = self.0.as_ref().map_or(0, |finder| finder.marks.len());
        f.debug_struct("Patterns")
            .field("forms", &forms)
            .finish_non_exhaustive()
    }
}

impl Patterns {
    /// Each secret and what stands in its place.
    pub(super) fn new<'a>(secrets: impl IntoIterator<Item = (String, &'a SecretString)>) -> Self {
        let mut all = BTreeMap::new();
        for (mark, value) in secrets {
            let mark: Arc<str> = mark.into();
            for form in forms(value.expose_secret()) {
                all.entry(form).or_insert_with(|| Arc::clone(&mark));
            }
        }
        Self((!all.is_empty()).then(|| Finder::new(all)))
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(finder) = self
            .0
            .as_ref()
            .filter(|finder| finder.shortest <= text.len())
        else {
            return Cow::Borrowed(text);
        };
        let mut scanner = Scanner::new(finder);
        let mut spans = Vec::new();
        scanner.push(finder, text.as_bytes(), &mut spans);
        scanner.finish(finder, &mut spans);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut mask = Mask {
            spans,
            held: text.as_bytes().to_vec(),
            ..Mask::default()
        };
        Cow::Owned(mask.release(finder, text.len()))
    }
}

/// The automaton, and what it does not say itself.
struct Finder {
    nfa: NFA,
    start: StateID,
    /// How many bytes lead to a state: so many at the end of what was read are the beginning of a form.
    depths: Vec<u32>,
    /// What stands in the place of each form.
    marks: Vec<Arc<str>>,
    /// Bytes that begin something that a view reads otherwise.
    spelling: [bool; 256],
    /// These, and bytes that begin a form.
    notable: [bool; 256],
    shortest: usize,
}

impl Finder {
    fn new(forms: BTreeMap<String, Arc<str>>) -> Self {
        let nfa = NFA::builder()
            .match_kind(MatchKind::Standard)
            .prefilter(false)
            .build(forms.keys())
            .expect("all forms of all secrets are far below what an automaton can hold");
        let start = nfa
            .start_state(Anchored::No)
            .expect("a standard automaton can begin anywhere");
        let mut depths = Vec::new();
        let spelling = std::array::from_fn(|byte| {
            let byte = u8::try_from(byte).unwrap_or_default();
            VIEWS
                .iter()
                .flat_map(|view| view.iter())
                .any(|layer| layer.begins_at(byte))
        });
        let mut notable = spelling;
        for form in forms.keys() {
            let mut state = start;
            for (byte, depth) in form.bytes().zip(1..) {
                state = nfa.next_state(Anchored::No, state, byte);
                let at = state.as_usize();
                if depths.len() <= at {
                    depths.resize(at + 1, 0);
                }
                depths[at] = depth;
            }
            notable[usize::from(form.as_bytes()[0])] = true;
        }
        let shortest = forms.keys().map(String::len).min().unwrap_or_default();
        Self {
            nfa,
            start,
            depths,
            marks: forms.into_values().collect(),
            spelling,
            notable,
            shortest,
        }
    }

    fn step(&self, state: StateID, byte: u8) -> StateID {
        self.nfa.next_state(Anchored::No, state, byte)
    }

    fn depth(&self, state: StateID) -> usize {
        self.depths
            .get(state.as_usize())
            .map_or(0, |depth| *depth as usize)
    }

    /// The longest form that ends here: its length and its number.
    fn ended(&self, state: StateID) -> Option<(usize, usize)> {
        if !self.nfa.is_match(state) {
            return None;
        }
        (0..self.nfa.match_len(state))
            .map(|index| self.nfa.match_pattern(state, index))
            .map(|form| (self.nfa.pattern_len(form), form.as_usize()))
            .max()
    }
}

/// A form that was found.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
    form: usize,
}

/// A view and how far it is in the automaton.
struct View {
    readers: Vec<Reader>,
    state: StateID,
    /// Where each byte of the beginning of a form was read.
    starts: VecDeque<usize>,
    /// False while the view reads the same as the text: then the text's own state is also the view's.
    apart: bool,
    /// What one layer gives to the next. Empty between two bytes; kept so that no byte needs room of its own.
    units: Vec<Unit>,
    read: Vec<Unit>,
}

impl View {
    fn new(finder: &Finder, layers: &[Spelling]) -> Self {
        Self {
            readers: layers.iter().copied().map(Reader::new).collect(),
            state: finder.start,
            starts: VecDeque::new(),
            apart: false,
            units: Vec::new(),
            read: Vec::new(),
        }
    }

    /// True when it may read this byte otherwise than the text. `idle`: no form has begun.
    fn parts_at(&self, byte: u8, idle: bool) -> bool {
        let layers = self.readers.iter().map(Reader::spelling);
        // A break is left out of a word; where none has begun, it is a break.
        let counts = |layer: &Spelling| !(idle && *layer == Spelling::Wrapped);
        layers.filter(counts).any(|layer| layer.begins_at(byte))
    }

    /// Goes its own way, from where the text is.
    fn part(&mut self, finder: &Finder, state: StateID, at: usize) {
        self.state = state;
        self.starts.clear();
        self.starts.extend(at - finder.depth(state)..at);
        self.apart = true;
    }

    /// Takes what the readers from this one on make of these bytes.
    fn push(
        &mut self,
        finder: &Finder,
        from: usize,
        units: impl IntoIterator<Item = Unit>,
        found: &mut Vec<Span>,
    ) {
        self.units.extend(units);
        for reader in &mut self.readers[from..] {
            for unit in self.units.drain(..) {
                reader.push(unit, &mut self.read);
            }
            std::mem::swap(&mut self.units, &mut self.read);
        }
        for unit in self.units.drain(..) {
            self.state = finder.step(self.state, unit.byte);
            self.starts.push_back(unit.start);
            let over = self.starts.len() - finder.depth(self.state);
            self.starts.drain(..over);
            if let Some((length, form)) = finder.ended(self.state) {
                let start = self.starts[self.starts.len() - length];
                found.push(Span {
                    start,
                    end: unit.end,
                    form,
                });
            }
        }
    }

    fn finish(&mut self, finder: &Finder, found: &mut Vec<Span>) {
        for from in 0..self.readers.len() {
            let rest = self.readers[from].finish();
            self.push(finder, from + 1, rest, found);
        }
    }

    /// True when it reads the same as the text again, which is in this state at this place.
    fn agrees(&self, finder: &Finder, state: StateID, at: usize) -> bool {
        self.state == state
            && self.readers.iter().all(Reader::is_idle)
            && self
                .starts
                .front()
                .is_none_or(|start| *start == at - finder.depth(state))
    }

    /// Where the part begins that is not decided.
    fn hold(&self) -> Option<usize> {
        let readers = self.readers.iter().filter_map(Reader::hold);
        readers.chain(self.starts.front().copied()).min()
    }
}

/// Reads a text once, in all views.
struct Scanner {
    /// How much was read.
    at: usize,
    state: StateID,
    /// None as long as nothing was spelt otherwise: most texts need none.
    views: Vec<View>,
}

impl Scanner {
    const fn new(finder: &Finder) -> Self {
        Self {
            at: 0,
            state: finder.start,
            views: Vec::new(),
        }
    }

    fn push(&mut self, finder: &Finder, bytes: &[u8], found: &mut Vec<Span>) {
        let mut apart = self.apart();
        for byte in bytes.iter().copied() {
            if apart || self.state != finder.start || finder.notable[usize::from(byte)] {
                let before = self.state;
                self.take(finder, byte, found);
                if apart || finder.spelling[usize::from(byte)] {
                    self.look(finder, byte, before, found);
                    apart = self.apart();
                }
            }
            self.at += 1;
        }
    }

    fn apart(&self) -> bool {
        self.views.iter().any(|view| view.apart)
    }

    /// Takes a byte as it is.
    fn take(&mut self, finder: &Finder, byte: u8, found: &mut Vec<Span>) {
        self.state = finder.step(self.state, byte);
        if let Some((length, form)) = finder.ended(self.state) {
            let end = self.at + 1;
            let start = end - length;
            found.push(Span { start, end, form });
        }
    }

    /// Takes it in all views that read, or may read, otherwise than the text, which was in this state before it.
    fn look(&mut self, finder: &Finder, byte: u8, before: StateID, found: &mut Vec<Span>) {
        let (start, end) = (self.at, self.at + 1);
        if self.views.is_empty() {
            self.views
                .extend(VIEWS.iter().map(|layers| View::new(finder, layers)));
        }
        for view in &mut self.views {
            if !view.apart {
                if !view.parts_at(byte, before == finder.start) {
                    continue;
                }
                view.part(finder, before, start);
            }
            view.push(finder, 0, [Unit { byte, start, end }], found);
            view.apart = !view.agrees(finder, self.state, end);
        }
    }

    fn finish(&mut self, finder: &Finder, found: &mut Vec<Span>) {
        for view in self.views.iter_mut().filter(|view| view.apart) {
            view.finish(finder, found);
        }
    }

    /// Everything before this place is decided.
    fn hold(&self, finder: &Finder) -> usize {
        let own = self.at - finder.depth(self.state);
        let views = self
            .views
            .iter()
            .filter(|view| view.apart)
            .filter_map(View::hold);
        views.min().map_or(own, |least| least.min(own))
    }
}

/// A text on its way out.
#[derive(Debug, Default)]
struct Mask {
    held: Vec<u8>,
    /// Where the held part begins.
    base: usize,
    /// What was found and is not out yet.
    spans: Vec<Span>,
    /// How far the last mark reaches.
    masked: usize,
}

impl Mask {
    /// Lets go of everything before a place: no span that is found later begins before it.
    fn release(&mut self, finder: &Finder, end: usize) -> String {
        self.spans
            .sort_unstable_by_key(|span| (span.start, Reverse(span.end), span.form));
        let decided = self.spans.partition_point(|span| span.start < end);
        let mut out = Vec::with_capacity(end - self.base);
        let mut at = self.base.max(self.masked);
        for span in self.spans.drain(..decided) {
            if span.start >= self.masked {
                out.extend_from_slice(&self.held[at - self.base..span.start - self.base]);
                out.extend_from_slice(finder.marks[span.form].as_bytes());
            }
            self.masked = self.masked.max(span.end);
            at = self.masked;
        }
        if at < end {
            out.extend_from_slice(&self.held[at - self.base..end - self.base]);
        }
        self.held.drain(..end - self.base);
        self.base = end;
        // Spans begin and end with characters, so this changes nothing.
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// Scrubs text that arrives in pieces: what may be the beginning of a secret is held back until it is decided.
pub(crate) struct Stream {
    patterns: Arc<Patterns>,
    scanner: Option<Scanner>,
    mask: Mask,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("patterns", &self.patterns)
            .finish_non_exhaustive()
    }
}

impl Stream {
    pub(super) fn new(patterns: Arc<Patterns>) -> Self {
        let scanner = patterns.0.as_ref().map(Scanner::new);
        Self {
            patterns,
            scanner,
            mask: Mask::default(),
        }
    }

    /// Takes a piece and gives what is certain.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let (Some(finder), Some(scanner)) = (&self.patterns.0, &mut self.scanner) else {
            return piece.to_owned();
        };
        scanner.push(finder, piece.as_bytes(), &mut self.mask.spans);
        self.mask.held.extend_from_slice(piece.as_bytes());
        self.mask.release(finder, scanner.hold(finder))
    }

    /// Gives the rest.
    pub(crate) fn finish(&mut self) -> String {
        let (Some(finder), Some(scanner)) = (&self.patterns.0, &mut self.scanner) else {
            return String::new();
        };
        scanner.finish(finder, &mut self.mask.spans);
        let rest = self.mask.release(finder, scanner.at);
        *scanner = Scanner::new(finder);
        self.mask = Mask::default();
        rest
    }
}

#[cfg(test)]
mod tests;
