//! The write-ahead log as a file, read without SQLite.
//!
//! SQLite takes the first frame that does not check out for the end of the log, and drops it with all that follows. That is
//! right after a power cut, when the last commit was half written. When bytes of an older frame changed, it is a loss of
//! commits that were acknowledged, and nobody is told. Here the two are told apart: only one commit can be half written,
//! so a commit *and more* after a bad frame is damage.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ravel_core::port_store::Error;

/// The log's header.
const HEADER_BYTES: usize = 32;
/// The header of a frame; a page follows.
const FRAME_BYTES: usize = 24;
/// How the log begins: the last bit says in which order its sums are made.
const MAGIC: u32 = 0x377f_0682;
/// Sizes that a page may have.
const PAGE_BYTES: std::ops::RangeInclusive<usize> = 512..=65_536;

type Sum = (u32, u32);

/// A frame of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) page: u32,
    /// Where its page is in the file.
    pub(super) at: usize,
    /// Pages of the database after the commit that this frame ends; 0 when it ends none.
    pub(super) commit: u32,
    /// SQLite would read it.
    pub(super) is_good: bool,
}

/// A log, in memory: it is bounded by checkpoints.
#[derive(Debug, Default)]
pub(super) struct Wal {
    pub(super) bytes: Vec<u8>,
    pub(super) page_bytes: usize,
    /// Frames of the present generation up to its last commit, also those that SQLite would not read.
    pub(super) frames: Vec<Frame>,
    /// Every whole frame in the file, of whatever generation.
    pub(super) all: Vec<Frame>,
    header_is_good: bool,
}

/// The path of a store's log.
pub(super) fn path_of(store: &Path) -> PathBuf {
    beside(store, "-wal")
}

/// A file whose name is the store's and something.
pub(super) fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

impl Wal {
    /// Reads a store's log; an empty one when there is none.
    pub(super) fn read(store: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        match File::open(path_of(store)) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(Self::parse(bytes))
    }

    fn parse(bytes: Vec<u8>) -> Self {
        let mut wal = Self {
            bytes,
            ..Self::default()
        };
        if wal.bytes.len() < HEADER_BYTES + FRAME_BYTES {
            return wal;
        }
        let big = wal.word(0) & 1 == 1;
        let mut sum = sum_of(&wal.bytes[..24], big, (0, 0));
        wal.header_is_good = wal.word(0) & !1 == MAGIC && sum == (wal.word(24), wal.word(28));
        // Of a header that is damaged the size may be, too; ours are SQLite's default.
        let said = usize::try_from(wal.word(8)).unwrap_or(0);
        wal.page_bytes = if PAGE_BYTES.contains(&said) && said.is_power_of_two() {
            said
        } else {
            4096
        };
        let salt = if wal.header_is_good {
            (wal.word(16), wal.word(20))
        } else {
            (wal.word(HEADER_BYTES + 8), wal.word(HEADER_BYTES + 12))
        };
        let step = FRAME_BYTES + wal.page_bytes;
        let mut is_good = wal.header_is_good;
        let mut present = Vec::new();
        let mut at = HEADER_BYTES;
        while at + step <= wal.bytes.len() {
            let data = at + FRAME_BYTES;
            sum = sum_of(&wal.bytes[at..at + 8], big, sum);
            sum = sum_of(&wal.bytes[data..at + step], big, sum);
            let is_present = (wal.word(at + 8), wal.word(at + 12)) == salt;
            is_good &= is_present && sum == (wal.word(at + 16), wal.word(at + 20));
            let frame = Frame {
                page: wal.word(at),
                at: data,
                commit: wal.word(at + 4),
                is_good,
            };
            if frame.page != 0 {
                wal.all.push(frame);
                // A frame whose salt is damaged stands between others of its generation.
                if is_present {
                    present.push(frame);
                }
            }
            at += step;
        }
        let committed = present.iter().rposition(|frame| frame.commit != 0);
        present.truncate(committed.map_or(0, |last| last + 1));
        wal.frames = present;
        wal
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = self.bytes.get(at..at + 4);
        bytes.map_or(0, |bytes| {
            u32::from_be_bytes(bytes.try_into().expect("four bytes"))
        })
    }

    /// Frames that SQLite would drop although they were acknowledged, and how many it would read.
    pub(super) fn dropped(&self) -> Option<(usize, usize)> {
        let good = self.frames.iter().take_while(|frame| frame.is_good).count();
        let rest = &self.frames[good..];
        let commits = rest.iter().filter(|frame| frame.commit != 0).count();
        // One commit may be half written: it ends with its own mark, or without.
        let half_written = usize::from(self.header_is_good);
        (commits > half_written).then_some((good, rest.len()))
    }

    /// The page of a frame.
    pub(super) fn page(&self, frame: &Frame) -> &[u8] {
        &self.bytes[frame.at..frame.at + self.page_bytes]
    }
}

/// SQLite's sum over pairs of words.
fn sum_of(bytes: &[u8], big: bool, (mut first, mut second): Sum) -> Sum {
    let word = |bytes: &[u8]| {
        let bytes: [u8; 4] = bytes.try_into().expect("four bytes");
        if big {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    };
    for pair in bytes.chunks_exact(8) {
        first = first.wrapping_add(word(&pair[..4])).wrapping_add(second);
        second = second.wrapping_add(word(&pair[4..])).wrapping_add(first);
    }
    (first, second)
}

/// Refuses a store whose log has lost commits in its middle. Only sensible while nobody writes to it.
pub(super) fn check(store: &Path) -> Result<(), Error> {
    let dropped = || {
        let wal = Wal::read(store).map_err(|error| Error::Io {
            message: format!("reading {}: {error}", path_of(store).display()),
        })?;
        Ok(wal.dropped())
    };
    // Somebody who only left a message may have written between two parts of what was read: then it is whole now.
    match dropped()?.and(dropped()?) {
        None => Ok(()),
        Some((good, lost)) => Err(Error::Damaged {
            what: format!(
                "the write-ahead log {} is not what was written: after its first {good} pages {lost} more, with commits that were acknowledged, would be dropped",
                path_of(store).display()
            ),
        }),
    }
}
