//! What makes a step the same step in two versions of a flow.

use crate::lang::tree::{Map, Node, Value};

/// Keys that hold steps.
const INNER_KEYS: &[&str] = &["steps", "race", "cases", "else"];

/// Hash of a step's own keys.
pub(crate) fn fingerprint(map: &Map) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for (key, entry) in map
        .iter()
        .filter(|(key, _)| !INNER_KEYS.contains(&key.as_str()))
    {
        hash_text(&mut hasher, b'k', key);
        hash_node(&mut hasher, &entry.node);
    }
    let hash = hasher.finalize();
    let (head, _) = hash
        .as_bytes()
        .split_first_chunk::<8>()
        .expect("a hash has 32 bytes");
    u64::from_le_bytes(*head)
}

/// Feeds a value, without its places, such that different values give different bytes.
fn hash_node(hasher: &mut blake3::Hasher, node: &Node) {
    match &node.value {
        Value::Null => {
            hasher.update(b"n");
        }
        Value::Bool(value) => {
            hasher.update(if *value { b"t" } else { b"f" });
        }
        Value::Number(number) => hash_text(hasher, b'#', &number.to_string()),
        Value::Text(text) => hash_text(hasher, b's', text),
        Value::List(items) => {
            hasher.update(b"[");
            items.iter().for_each(|item| hash_node(hasher, item));
            hasher.update(b"]");
        }
        Value::Map(map) => {
            hasher.update(b"{");
            for (key, entry) in map {
                hash_text(hasher, b'k', key);
                hash_node(hasher, &entry.node);
            }
            hasher.update(b"}");
        }
    }
}

fn hash_text(hasher: &mut blake3::Hasher, kind: u8, text: &str) {
    hasher.update(&[kind]);
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}
