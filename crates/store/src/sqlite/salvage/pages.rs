//! Pages and records of an SQLite file, read without SQLite: what is damaged is left out, the rest is there.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rusqlite::types::Value;

use super::super::VALUE_BYTES_MAX;
use super::super::wal::Wal;

/// The header of the file, before the first page's own.
const HEADER_BYTES: usize = 100;
/// Kinds of pages that hold rows.
const TABLE_LEAF: u8 = 0x0d;
const INDEX_LEAF: u8 = 0x0a;
const INDEX_INTERIOR: u8 = 0x02;

/// A row: its key (0 in an index) and its columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) key: i64,
    pub(super) columns: Vec<Value>,
}

/// A file and its log. The newest version of a page counts, whether SQLite would still find it or not.
pub(super) struct Pages {
    file: File,
    wal: Wal,
    size: usize,
    count: u32,
    newest: HashMap<u32, usize>,
    free: HashSet<u32>,
}

impl Pages {
    pub(super) fn open(store: &Path) -> io::Result<Self> {
        let file = File::open(store)?;
        let wal = Wal::read(store)?;
        let bytes = file.metadata()?.len();
        let mut said = [0; 2];
        let _ = file.read_exact_at(&mut said, 16);
        let size = match usize::from(u16::from_be_bytes(said)) {
            1 => 65_536,
            size if size >= 512 && size.is_power_of_two() => size,
            // The first page is damaged: what SQLite makes.
            _ if wal.page_bytes > 0 => wal.page_bytes,
            _ => 4096,
        };
        let in_file = u32::try_from(bytes.div_ceil(size as u64)).unwrap_or(u32::MAX);
        let in_log = wal.frames.iter().map(|frame| frame.page).max().unwrap_or(0);
        let newest = wal.frames.iter().enumerate();
        let newest = newest.map(|(index, frame)| (frame.page, index)).collect();
        let mut pages = Self {
            file,
            wal,
            size,
            // A damaged number of a page does not make the file longer than it can be.
            count: in_file.max(in_log.min(in_file.saturating_mul(2).saturating_add(4096))),
            newest,
            free: HashSet::new(),
        };
        pages.free = pages.freed();
        Ok(pages)
    }

    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// The newest version of a page; a part of one where the file was cut.
    fn page(&self, number: u32) -> Option<Vec<u8>> {
        if let Some(index) = self.newest.get(&number)
            && self.wal.page_bytes == self.size
        {
            return Some(self.wal.page(&self.wal.frames[*index]).to_vec());
        }
        self.in_file(number)
    }

    fn in_file(&self, number: u32) -> Option<Vec<u8>> {
        let offset = u64::from(number.checked_sub(1)?) * self.size as u64;
        let mut page = vec![0; self.size];
        let mut read = 0;
        while read < page.len() {
            match self.file.read_at(&mut page[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A sector that cannot be read is lost; the others are not.
                Err(_) => break,
            }
        }
        (read > 0).then_some(page)
    }

    /// Pages that hold nothing any more: rows of runs that were removed may still be legible there.
    fn freed(&self) -> HashSet<u32> {
        let mut free = HashSet::new();
        let first = self.page(1).unwrap_or_default();
        let mut trunk = word(&first, 32);
        while trunk != 0 && trunk <= self.count && free.insert(trunk) {
            let page = self.page(trunk).unwrap_or_default();
            let leaves = (word(&page, 4) as usize).min(self.size / 4 - 2);
            free.extend((0..leaves).map(|leaf| word(&page, 8 + 4 * leaf)));
            trunk = word(&page, 0);
        }
        // A damaged list may name pages in use: their turns are found among the old versions.
        free
    }

    /// The rows of a page in use.
    pub(super) fn records(&self, number: u32) -> Vec<Record> {
        if self.free.contains(&number) {
            return Vec::new();
        }
        let page = self.page(number);
        page.map_or_else(Vec::new, |page| self.parse(&page, number))
    }

    /// The rows of the other versions of pages: older ones, and those that were given back. For what proves itself.
    pub(super) fn old_records(&self, mut each: impl FnMut(Record)) {
        for number in 1..=self.count {
            if (self.newest.contains_key(&number) || self.free.contains(&number))
                && let Some(page) = self.in_file(number)
            {
                self.parse(&page, number).into_iter().for_each(&mut each);
            }
        }
        if self.wal.page_bytes == self.size {
            for frame in &self.wal.all {
                let page = self.wal.page(frame);
                let records = self.parse(page, frame.page);
                records.into_iter().for_each(&mut each);
            }
        }
    }

    fn parse(&self, page: &[u8], number: u32) -> Vec<Record> {
        let start = if number == 1 { HEADER_BYTES } else { 0 };
        let Some(kind) = page.get(start).copied() else {
            return Vec::new();
        };
        let header = match kind {
            TABLE_LEAF | INDEX_LEAF => 8,
            INDEX_INTERIOR => 12,
            _ => return Vec::new(),
        };
        let cells = usize::from(half(page, start + 3)).min(self.size / 4);
        (0..cells)
            .filter_map(|cell| {
                let at = usize::from(half(page, start + header + 2 * cell));
                self.cell(page, at, kind)
            })
            .collect()
    }

    fn cell(&self, page: &[u8], mut at: usize, kind: u8) -> Option<Record> {
        if kind == INDEX_INTERIOR {
            at += 4;
        }
        let bytes = usize::try_from(varint(page, &mut at)?).ok()?;
        if bytes > VALUE_BYTES_MAX + self.size {
            return None;
        }
        let key = if kind == TABLE_LEAF {
            varint(page, &mut at)?
        } else {
            0
        };
        let payload = self.payload(page, at, bytes, kind == TABLE_LEAF)?;
        columns(&payload).map(|columns| Record { key, columns })
    }

    /// The bytes of a record: those on its page, and those on the pages that it flows over to.
    fn payload(&self, page: &[u8], at: usize, bytes: usize, is_table: bool) -> Option<Vec<u8>> {
        let usable = self.size;
        let most = if is_table {
            usable - 35
        } else {
            (usable - 12) * 64 / 255 - 23
        };
        if bytes <= most {
            return Some(page.get(at..at + bytes)?.to_vec());
        }
        let least = (usable - 12) * 32 / 255 - 23;
        let fitting = least + (bytes - least) % (usable - 4);
        let local = if fitting <= most { fitting } else { least };
        let mut payload = page.get(at..at + local)?.to_vec();
        let mut next = word(page, at + local);
        while payload.len() < bytes {
            if next == 0 || next > self.count {
                return None;
            }
            let more = self.page(next)?;
            let take = (bytes - payload.len()).min(usable - 4);
            payload.extend_from_slice(more.get(4..4 + take)?);
            next = word(&more, 0);
        }
        Some(payload)
    }
}

/// The columns of a record; none when its bytes do not add up.
fn columns(payload: &[u8]) -> Option<Vec<Value>> {
    let mut at = 0;
    let header = usize::try_from(varint(payload, &mut at)?).ok()?;
    let mut data = header;
    let mut columns = Vec::new();
    while at < header {
        let kind = varint(payload, &mut at)?;
        let (value, bytes) = column(payload, data, kind)?;
        columns.push(value);
        data += bytes;
    }
    (data == payload.len()).then_some(columns)
}

fn column(payload: &[u8], at: usize, kind: i64) -> Option<(Value, usize)> {
    let integer = |bytes: usize| {
        let raw = payload.get(at..at + bytes)?;
        let negative = raw.first().is_some_and(|first| first & 0x80 != 0);
        let start = if negative { -1 } else { 0 };
        let value = raw
            .iter()
            .fold(start, |value: i64, byte| (value << 8) | i64::from(*byte));
        Some((Value::Integer(value), bytes))
    };
    match kind {
        0 => Some((Value::Null, 0)),
        1..=4 => integer(usize::try_from(kind).ok()?),
        5 => integer(6),
        6 => integer(8),
        8 | 9 => Some((Value::Integer(kind - 8), 0)),
        12.. => {
            let bytes = usize::try_from((kind - 12) / 2).ok()?;
            let raw = payload.get(at..at.checked_add(bytes)?)?.to_vec();
            let value = if kind % 2 == 0 {
                Value::Blob(raw)
            } else {
                Value::Text(String::from_utf8(raw).ok()?)
            };
            Some((value, bytes))
        }
        // Numbers with a point, and what SQLite keeps for itself: no table of ours has them.
        _ => None,
    }
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let mut value: u64 = 0;
    for position in 0..9 {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if position == 8 {
            value = (value << 8) | u64::from(byte);
            break;
        }
        value = (value << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(i64::from_ne_bytes(value.to_ne_bytes()))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let raw = bytes.get(at..at + 4).and_then(|raw| raw.try_into().ok());
    raw.map_or(0, u32::from_be_bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    let raw = bytes.get(at..at + 2).and_then(|raw| raw.try_into().ok());
    raw.map_or(0, u16::from_be_bytes)
}
