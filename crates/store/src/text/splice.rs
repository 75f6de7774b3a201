//! Puts blobs back in place of their references in the text itself: a large value is then parsed once, into what it
//! becomes, and not into a tree of its own before.

use ravel_core::port_store::Error;

use super::Blobs;

/// How every reference begins. Inside a string its quotes would be escaped, and a user's own key has one more `$`.
const BEGIN: &[u8] = b"{\"$blob\":\"";
/// The end of a user's key that looks like ours, as it is stored.
const ESCAPED: &[u8] = b"$$blob\":";
/// Between the hash of a reference and its length.
const BYTES: &[u8] = b"\",\"bytes\":";
/// Hexadecimal digits of a hash.
const HASH_DIGITS: usize = 64;

/// The text with its blobs in it. Nothing when it holds a user's key that looks like ours, or a reference that is none:
/// then its tree has to be walked.
pub(super) fn spliced(text: &[u8], blobs: &mut dyn Blobs) -> Result<Option<Vec<u8>>, Error> {
    let mut whole = Vec::new();
    Ok(splice(text, blobs, &mut whole)?.then_some(whole))
}

fn splice(text: &[u8], blobs: &mut dyn Blobs, whole: &mut Vec<u8>) -> Result<bool, Error> {
    let mut copied = 0;
    let mut from = 0;
    while let Some(dollar) = text[from..].iter().position(|byte| *byte == b'$') {
        let at = from + dollar;
        from = at + 1;
        if text[at..].starts_with(ESCAPED) {
            return Ok(false);
        }
        let Some(start) = at
            .checked_sub(2)
            .filter(|start| text[*start..].starts_with(BEGIN))
        else {
            continue;
        };
        let Some((hash, end)) = reference(text, start + BEGIN.len()) else {
            return Ok(false);
        };
        whole.extend_from_slice(&text[copied..start]);
        if !splice(&blobs.json(hash)?, blobs, whole)? {
            return Ok(false);
        }
        (copied, from) = (end, end);
    }
    whole.extend_from_slice(&text[copied..]);
    Ok(true)
}

/// The hash of the reference whose hash begins at a position, and where the reference ends.
fn reference(text: &[u8], at: usize) -> Option<(&str, usize)> {
    let hash = text.get(at..at + HASH_DIGITS)?;
    let rest = text[at + HASH_DIGITS..].strip_prefix(BYTES)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_whole = digits > 0 && rest.get(digits) == Some(&b'}');
    let end = at + HASH_DIGITS + BYTES.len() + digits + 1;
    let hash = std::str::from_utf8(hash).ok().filter(|_| is_whole)?;
    Some((hash, end))
}
