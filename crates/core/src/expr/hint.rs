//! Nearest names, for hints.

/// A name is near another one if it has at most one changed letter (Damerau-Levenshtein) in this many.
const LETTERS_PER_CHANGE: usize = 3;

/// The candidate that a misspelt name most likely means.
pub(crate) fn did_you_mean<'c>(
    name: &str,
    candidates: impl Iterator<Item = &'c str>,
) -> Option<&'c str> {
    let letters = name.chars().count();
    let limit = (letters / LETTERS_PER_CHANGE)
        .max(1)
        .min(letters.saturating_sub(1));
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn the_nearest_name_is_offered_only_when_it_is_near() {
        let names = ["length", "upper", "sort_by"];
        assert_eq!(did_you_mean("lenght", names.into_iter()), Some("length"));
        assert_eq!(did_you_mean("sortby", names.into_iter()), Some("sort_by"));
        assert_eq!(did_you_mean("frobnicate", names.into_iter()), None);
    }
}
