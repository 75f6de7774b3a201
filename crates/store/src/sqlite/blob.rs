//! Big values: stored once each by their hash, compressed, and as differences where they grow step by step.
//!
//! A value that shares its beginning and end with a recent one of the same run is stored as a *delta*: base, lengths
//! of the shared prefix and suffix, and what is between. Chains are bounded in two levels: after [`STEP_MAX`] deltas
//! the next one is made against the *anchor* that the group began with, and becomes the next anchor. A value is then at
//! most [`DEPTH_MAX`] deltas away from a whole one, and a list that grows by equal pieces costs twice its size.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ravel_core::port_store::Error;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::commit::cached;
use super::error::ResultExt;
use super::{VALUE_BYTES_MAX, size, uint};
use crate::chain::Link;
use crate::text::{Blobs, Cut};

/// Deltas in a row before one is made against the group's anchor.
const STEP_MAX: u32 = 64;
/// Deltas between a value and a whole one.
const DEPTH_MAX: u32 = 128;
/// Values of a run that the next one is compared with: lists that grow in turn.
const RECENT_MAX: usize = 4;
/// A delta must save at least this share: what is new is at most 1/2 of the value.
const NEW_SHARE_MAX: usize = 2;
/// Fast compression: it stands between a step and its commit.
const ZSTD_LEVEL: i32 = 1;
/// Shorter pieces are not compressed.
const PACK_BYTES_MIN: usize = 128;
/// Of a long value only this much is tried first.
const PROBE_BYTES: usize = 64 * 1024;

/// A recent value of a run.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    key: i64,
    hash: Link,
    anchor: Option<(i64, Link)>,
    step: u32,
    depth: u32,
}

/// What a new value is stored against.
struct Base {
    key: i64,
    prefix: usize,
    suffix: usize,
    anchor: Option<(i64, Link)>,
    step: u32,
    depth: u32,
}

/// Writes values; holds the contents of recent ones, by hash, oldest out first.
#[derive(Debug)]
pub(super) struct Vault {
    contents: HashMap<Link, Arc<[u8]>>,
    order: VecDeque<Link>,
    bytes: usize,
    bytes_max: usize,
}

impl Vault {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            contents: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Stores what was cut out of a run's turns, in the open transaction.
    pub(super) fn store(
        &mut self,
        conn: &Connection,
        run: i64,
        recent: &mut Vec<Recent>,
        cuts: &mut Vec<Cut>,
    ) -> Result<(), Error> {
        for Cut { hash, json } in cuts.drain(..) {
            let hash = *hash.as_bytes();
            let known: Option<i64> = cached(conn, "SELECT key FROM blob WHERE hash = ?")?
                .query_row([hash.as_slice()], |row| row.get(0))
                .optional()
                .context("storing a value")?;
            let key = match known {
                Some(key) => key,
                None => self.insert(conn, recent, hash, json)?,
            };
            let sql = "INSERT INTO blob_ref(run, blob) VALUES (?, ?) ON CONFLICT DO NOTHING";
            cached(conn, sql)?
                .execute([run, key])
                .context("storing a value")?;
        }
        Ok(())
    }

    fn insert(
        &mut self,
        conn: &Connection,
        recent: &mut Vec<Recent>,
        hash: Link,
        json: Vec<u8>,
    ) -> Result<i64, Error> {
        if json.len() > VALUE_BYTES_MAX {
            let message = format!(
                "a value of {} bytes is too long: at most {VALUE_BYTES_MAX} are stored",
                json.len()
            );
            return Err(Error::Io { message });
        }
        let found = self.similar(conn, recent, &json)?;
        let base = found.as_ref().map(|(_, base)| base);
        let (prefix, suffix) = base.map_or((0, 0), |base| (base.prefix, base.suffix));
        let (packed, body) = pack(&json[prefix..json.len() - suffix])?;
        let (anchor, step, depth) =
            base.map_or((None, 0, 0), |base| (base.anchor, base.step, base.depth));
        let sql =
            "INSERT INTO blob(hash, bytes, packed, base, prefix, suffix, anchor, step, depth, body)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        cached(conn, sql)?
            .execute(params![
                hash.as_slice(),
                size(json.len()),
                packed,
                base.map(|base| base.key),
                size(prefix),
                size(suffix),
                anchor.map(|(key, _)| key),
                step,
                depth,
                body,
            ])
            .context("storing a value")?;
        let key = conn.last_insert_rowid();
        match found {
            Some((replaced, _)) => drop(recent.remove(replaced)),
            None if recent.len() >= RECENT_MAX => drop(recent.remove(0)),
            None => {}
        }
        recent.push(Recent {
            key,
            hash,
            anchor,
            step,
            depth,
        });
        self.remember(hash, json.into());
        Ok(key)
    }

    /// The recent value that leaves the least to store, and how the new one is stored against it.
    fn similar(
        &mut self,
        conn: &Connection,
        recent: &[Recent],
        json: &[u8],
    ) -> Result<Option<(usize, Base)>, Error> {
        let mut best: Option<(usize, (usize, usize))> = None;
        for (position, other) in recent.iter().enumerate() {
            let Some(content) = self.content(conn, &other.hash)? else {
                continue;
            };
            let shared = shared(&content, json);
            if best.is_none_or(|(_, least)| shared.0 + shared.1 > least.0 + least.1) {
                best = Some((position, shared));
            }
        }
        let Some((position, (prefix, suffix))) = best else {
            return Ok(None);
        };
        if !is_worth_it(json, prefix, suffix) {
            return Ok(None);
        }
        let near = &recent[position];
        let (anchor_key, anchor_hash) = near.anchor.unwrap_or((near.key, near.hash));
        if near.step < STEP_MAX {
            let anchor = Some((anchor_key, anchor_hash));
            let base = Base {
                key: near.key,
                prefix,
                suffix,
                anchor,
                step: near.step + 1,
                depth: near.depth + 1,
            };
            return Ok(Some((position, base)));
        }
        let depth = near.depth - near.step + 1;
        if depth + STEP_MAX > DEPTH_MAX {
            return Ok(None);
        }
        let Some(content) = self.content(conn, &anchor_hash)? else {
            return Ok(None);
        };
        let (prefix, suffix) = shared(&content, json);
        let base = Base {
            key: anchor_key,
            prefix,
            suffix,
            anchor: None,
            step: 0,
            depth,
        };
        Ok(is_worth_it(json, prefix, suffix).then_some((position, base)))
    }

    /// A value's text, from memory or from the store; none when it is too big to be held.
    fn content(&mut self, conn: &Connection, hash: &Link) -> Result<Option<Arc<[u8]>>, Error> {
        if let Some(content) = self.contents.get(hash) {
            return Ok(Some(content.clone()));
        }
        let bytes: Option<i64> = cached(conn, "SELECT bytes FROM blob WHERE hash = ?")?
            .query_row([hash.as_slice()], |row| row.get(0))
            .optional()
            .context("reading a value")?;
        let Some(bytes) = bytes else { return Ok(None) };
        if usize::try_from(bytes).unwrap_or(usize::MAX) > self.bytes_max {
            return Ok(None);
        }
        let content: Arc<[u8]> = read(conn, hash)?.into();
        self.remember(*hash, content.clone());
        Ok(Some(content))
    }

    fn remember(&mut self, hash: Link, content: Arc<[u8]>) {
        if content.len() > self.bytes_max || self.contents.contains_key(&hash) {
            return;
        }
        self.bytes += content.len();
        self.contents.insert(hash, content);
        self.order.push_back(hash);
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            self.drop_content(&oldest);
        }
    }

    fn drop_content(&mut self, hash: &Link) {
        if let Some(content) = self.contents.remove(hash) {
            self.bytes -= content.len();
        }
    }

    /// Drops the contents that a finished run kept.
    pub(super) fn drop_run(&mut self, recent: &[Recent]) {
        for Recent { hash, anchor, .. } in recent {
            self.drop_content(hash);
            if let Some((_, hash)) = anchor {
                self.drop_content(hash);
            }
        }
        if !recent.is_empty() {
            let contents = &self.contents;
            self.order.retain(|hash| contents.contains_key(hash));
        }
    }

    /// The recent values of a run that was not written here before.
    pub(super) fn recall(&self, conn: &Connection, run: i64) -> Result<Vec<Recent>, Error> {
        let sql = "SELECT b.key, b.hash, b.step, b.depth, a.key, a.hash FROM blob_ref r JOIN blob b ON b.key = r.blob
            LEFT JOIN blob a ON a.key = b.anchor WHERE r.run = ? ORDER BY r.blob DESC LIMIT ?";
        let what = "reading recent values";
        let mut recent: Vec<Recent> = cached(conn, sql)?
            .query_map(params![run, size(RECENT_MAX)], recent)
            .context(what)?
            .collect::<rusqlite::Result<_>>()
            .context(what)?;
        recent.reverse();
        Ok(recent)
    }
}

fn recent(row: &Row<'_>) -> rusqlite::Result<Recent> {
    let anchor: Option<i64> = row.get(4)?;
    let anchor_hash: Option<Link> = row.get(5)?;
    Ok(Recent {
        key: row.get(0)?,
        hash: row.get(1)?,
        anchor: anchor.zip(anchor_hash),
        step: row.get(2)?,
        depth: row.get(3)?,
    })
}

const fn is_worth_it(json: &[u8], prefix: usize, suffix: usize) -> bool {
    (json.len() - prefix - suffix) * NEW_SHARE_MAX <= json.len()
}

/// Lengths of the common beginning and end, not overlapping in either.
fn shared(a: &[u8], b: &[u8]) -> (usize, usize) {
    const CHUNK: usize = 64;
    let least = a.len().min(b.len());
    let equal_chunks = a
        .chunks_exact(CHUNK)
        .zip(b.chunks_exact(CHUNK))
        .take_while(|(a, b)| a == b)
        .count();
    let start = equal_chunks * CHUNK;
    let prefix = start
        + a[start..]
            .iter()
            .zip(&b[start..])
            .take_while(|(a, b)| a == b)
            .count();
    let rest = least - prefix;
    let (a, b) = (&a[a.len() - rest..], &b[b.len() - rest..]);
    let equal_chunks = a
        .rchunks_exact(CHUNK)
        .zip(b.rchunks_exact(CHUNK))
        .take_while(|(a, b)| a == b)
        .count();
    let end = rest - equal_chunks * CHUNK;
    let suffix = rest - end
        + a[..end]
            .iter()
            .rev()
            .zip(b[..end].iter().rev())
            .take_while(|(a, b)| a == b)
            .count();
    (prefix, suffix)
}

/// Compresses when that helps.
fn pack(bytes: &[u8]) -> Result<(bool, Vec<u8>), Error> {
    let failed = |error| Error::Io {
        message: format!("compressing a value: {error}"),
    };
    let helps = |packed: usize, bytes: usize| packed < bytes - bytes / 10;
    if bytes.len() < PACK_BYTES_MIN {
        return Ok((false, bytes.to_vec()));
    }
    if bytes.len() > PROBE_BYTES {
        let probe = zstd::bulk::compress(&bytes[..PROBE_BYTES], ZSTD_LEVEL).map_err(failed)?;
        if !helps(probe.len(), PROBE_BYTES) {
            return Ok((false, bytes.to_vec()));
        }
    }
    let packed = zstd::bulk::compress(bytes, ZSTD_LEVEL).map_err(failed)?;
    Ok(if helps(packed.len(), bytes.len()) {
        (true, packed)
    } else {
        (false, bytes.to_vec())
    })
}

/// One value of a chain of deltas.
struct Piece {
    bytes: usize,
    prefix: usize,
    suffix: usize,
    body: Vec<u8>,
}

/// The text of a value, checked against its hash.
pub(super) fn read(conn: &Connection, hash: &Link) -> Result<Vec<u8>, Error> {
    let lost = |why: &str| {
        let hash = blake3::Hash::from_bytes(*hash).to_hex();
        Error::Damaged {
            what: format!("the value {hash} {why}"),
        }
    };
    let mut pieces = Vec::new();
    let mut next = cached(conn, "SELECT key FROM blob WHERE hash = ?")?
        .query_row([hash.as_slice()], |row| row.get::<_, i64>(0))
        .optional()
        .context("reading a value")?;
    if next.is_none() {
        return Err(lost("is missing"));
    }
    while let Some(key) = next {
        if pieces.len() > DEPTH_MAX as usize {
            return Err(lost("refers to itself"));
        }
        let (piece, base) =
            piece(conn, key)?.ok_or_else(|| lost("has lost the value that it extends"))?;
        pieces.push(piece);
        next = base;
    }
    let bytes = pieces[0].bytes;
    if bytes > VALUE_BYTES_MAX {
        return Err(lost("does not have the length that was written"));
    }
    let mut whole = Vec::with_capacity(bytes);
    let fits = copy(&pieces, 0..bytes, &mut whole).is_some();
    if !fits || blake3::hash(&whole).as_bytes() != hash {
        return Err(lost("does not have the bytes that were written"));
    }
    Ok(whole)
}

fn piece(conn: &Connection, key: i64) -> Result<Option<(Piece, Option<i64>)>, Error> {
    let sql = "SELECT bytes, prefix, suffix, packed, base, body FROM blob WHERE key = ?";
    let what = "reading a value";
    let found = cached(conn, sql)?
        .query_row([key], |row| {
            let length = |column: usize| {
                row.get(column)
                    .map(|length: i64| usize::try_from(length).unwrap_or(0))
            };
            let piece = Piece {
                bytes: length(0)?,
                prefix: length(1)?,
                suffix: length(2)?,
                body: row.get(5)?,
            };
            Ok((piece, row.get::<_, bool>(3)?, row.get::<_, Option<i64>>(4)?))
        })
        .optional()
        .context(what)?;
    let Some((mut piece, packed, base)) = found else {
        return Ok(None);
    };
    if packed && piece.bytes <= VALUE_BYTES_MAX {
        let bytes = piece
            .bytes
            .saturating_sub(piece.prefix)
            .saturating_sub(piece.suffix);
        piece.body =
            zstd::bulk::decompress(&piece.body, bytes).map_err(|error| Error::Damaged {
                what: format!("{what}: {error}"),
            })?;
    }
    Ok(Some((piece, base)))
}

/// Appends a range of the first piece's value, taking what it shares from the pieces after it.
fn copy(pieces: &[Piece], range: std::ops::Range<usize>, whole: &mut Vec<u8>) -> Option<()> {
    if range.is_empty() {
        return Some(());
    }
    let (piece, bases) = pieces.split_first()?;
    let end = piece.bytes.checked_sub(piece.suffix)?;
    if range.start < piece.prefix {
        copy(bases, range.start..range.end.min(piece.prefix), whole)?;
    }
    let (from, to) = (range.start.max(piece.prefix), range.end.min(end));
    if from < to {
        whole.extend_from_slice(piece.body.get(from - piece.prefix..to - piece.prefix)?);
    }
    if range.end > end {
        let base = bases.first()?;
        let moved = |at: usize| (at + base.bytes).checked_sub(piece.bytes);
        copy(
            bases,
            moved(range.start.max(end))?..moved(range.end)?,
            whole,
        )?;
    }
    Some(())
}

/// Values of one store, for reading turns.
pub(super) struct Reader<'c> {
    pub(super) conn: &'c Connection,
}

impl Blobs for Reader<'_> {
    fn json(&mut self, hash: &str) -> Result<Arc<[u8]>, Error> {
        let hash = blake3::Hash::from_hex(hash).map_err(|error| Error::Damaged {
            what: format!("a reference to a value: {error}"),
        })?;
        read(self.conn, hash.as_bytes()).map(Into::into)
    }
}

/// Checks every value that a run refers to; gives how many there are.
pub(super) fn check_all(conn: &Connection, run: i64) -> Result<u64, Error> {
    let what = "reading the values of a run";
    let sql = "SELECT b.hash FROM blob_ref r JOIN blob b ON b.key = r.blob WHERE r.run = ? ORDER BY b.key";
    let hashes: Vec<Link> = cached(conn, sql)?
        .query_map([run], |row| row.get(0))
        .context(what)?
        .collect::<rusqlite::Result<_>>()
        .context(what)?;
    hashes
        .iter()
        .try_for_each(|hash| read(conn, hash).map(drop))?;
    let refs: i64 = cached(conn, "SELECT count(*) FROM blob_ref WHERE run = ?")?
        .query_row([run], |row| row.get(0))
        .context(what)?;
    if refs != i64::try_from(hashes.len()).unwrap_or(i64::MAX) {
        return Err(Error::Damaged {
            what: "some of its values are missing".into(),
        });
    }
    Ok(uint(refs))
}
