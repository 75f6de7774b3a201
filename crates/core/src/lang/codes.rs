//! The codes of diagnostics: one table, one page of explanation each.

use std::fmt;

use super::diagnostic::Severity;

/// A diagnostic's code, `RV0102`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u16);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RV{:04}", self.0)
    }
}

impl Code {
    /// How bad it is.
    pub fn severity(self) -> Severity {
        self.entry().severity
    }

    /// Its row in the table.
    pub fn entry(self) -> &'static Entry {
        TABLE
            .iter()
            .find(|entry| entry.code == self)
            .expect("every code is made by the table")
    }

    /// The code with this text, `RV0102` or `102`.
    pub fn from_text(text: &str) -> Option<Self> {
        let digits = text.trim_start_matches(['R', 'V', 'r', 'v']);
        let number = digits.parse::<u16>().ok()?;
        TABLE
            .iter()
            .map(|entry| entry.code)
            .find(|code| code.0 == number)
    }
}

/// A row of the table of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The code.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// A few words.
    pub title: &'static str,
    /// What, why and how to fix it, in Markdown.
    pub page: &'static str,
}

macro_rules! codes {
    ($($name:ident $number:literal $severity:ident $title:literal $page:literal;)*) => {
        $(
            #[doc = $title]
            pub const $name: Code = Code($number);
        )*
        /// Every code, ascending.
        pub static TABLE: &[Entry] = &[$(
            Entry {
                code: $name,
                severity: Severity::$severity,
                title: $title,
                page: include_str!(concat!("../../../../codes/", $page, ".md")),
            },
        )*];
    };
}

codes! {
    SYNTAX 1 Error "the text is neither YAML nor JSON" "RV0001";
    DUPLICATE_KEY 2 Error "a key stands twice in a map" "RV0002";
    TAG 3 Error "a YAML tag" "RV0003";
    ANCHOR 4 Error "a YAML anchor or alias" "RV0004";
    AMBIGUOUS 5 Error "a plain scalar that readers of YAML disagree on" "RV0005";
    CUT_TEXT 6 Error "text cut off by ` #`" "RV0006";
    TOO_LARGE 7 Error "a file beyond a limit" "RV0007";
    DOCUMENTS 8 Error "no document, or several" "RV0008";
    BAD_KEY 9 Error "a map key that is not text" "RV0009";
    FILE 10 Error "a file that cannot be read" "RV0010";
    UNKNOWN_KEY 101 Error "an unknown key" "RV0101";
    NO_FIELD 102 Error "a field that the producer does not return" "RV0102";
    UNKNOWN_NAME 103 Error "a name that nothing has" "RV0103";
    BAD_NAME 104 Error "a name of the wrong form" "RV0104";
    TAKEN_NAME 105 Error "a reserved or shadowing name" "RV0105";
    CYCLE 106 Error "steps that wait for each other" "RV0106";
    MISSING_KEY 107 Error "a required key is missing" "RV0107";
    WRONG_SHAPE 108 Error "a value of the wrong shape" "RV0108";
    KIND 109 Error "a step without a kind, or with two" "RV0109";
    BAD_FORMAT 110 Error "a duration, size or share that cannot be read" "RV0110";
    NOT_AVAILABLE 111 Error "a part of the language that this version does not run" "RV0111";
    WRONG_PLACE 112 Error "a key that this kind of step does not have" "RV0112";
    VERSION 113 Error "a language version that is not known" "RV0113";
    CHOICE 114 Error "a value outside a closed choice" "RV0114";
    OUT_OF_RANGE 115 Error "a number out of its range" "RV0115";
    EXPRESSION 201 Error "an expression that cannot be parsed" "RV0201";
    CONDITION 202 Error "a condition that is not a boolean" "RV0202";
    COMPARISON 203 Error "a comparison of unlike types" "RV0203";
    UNKNOWN_FUNCTION 204 Error "an unknown filter, test or function" "RV0204";
    SECRET_PLACE 205 Error "a secret outside `env` and headers" "RV0205";
    SOURCE_TEMPLATE 206 Error "`{{ }}` in Python or Node source" "RV0206";
    HAND_QUOTED 207 Error "`{{ }}` quoted by hand in shell text" "RV0207";
    PLAIN_SECRET 208 Error "a secret in plain text" "RV0208";
    RAW_SHELL 209 Error "`raw_shell` on a value that is not trusted" "RV0209";
    NO_OUTPUT 210 Error "a group that is read and has no `output`" "RV0210";
    BAD_TYPE 301 Error "a type that cannot be read" "RV0301";
    MISFIT 302 Error "a value that cannot fit its place" "RV0302";
    OUTPUT_MISFIT 303 Error "an output that cannot fit `returns`" "RV0303";
    NOT_A_LIST 304 Error "`for_each` over something that is not a list" "RV0304";
    ARGUMENTS 305 Error "a missing or unknown argument" "RV0305";
    LITERAL_MISFIT 306 Error "a literal or default outside its type" "RV0306";
    JOIN 401 Error "a join that cannot be met" "RV0401";
    NOT_EXHAUSTIVE 402 Error "a `switch` that misses cases" "RV0402";
    UNBOUNDED 403 Error "a loop without a bound" "RV0403";
    WORKSPACE 404 Error "two unordered `run` steps in one workspace" "RV0404";
    BLIND_RETRY 405 Error "a `once` effect under blind retry" "RV0405";
    REPAIR_ONCE 406 Error "repair of a scope that holds a `once` step" "RV0406";
    UNGUARDED 407 Error "an output that reads what may be skipped" "RV0407";
    RECURSION 408 Error "recursion without `max_depth`" "RV0408";
    CASE 409 Error "a case that can never be chosen" "RV0409";
    CHECK_EFFECT 410 Error "a check that is not a read" "RV0410";
    UNKNOWN_TOOL 501 Error "an unknown tool" "RV0501";
    UNKNOWN_MODEL 502 Error "an unknown model" "RV0502";
    UNKNOWN_FLOW 503 Error "an unknown flow" "RV0503";
    UNPRICED 504 Error "a `usd` budget on a model without a price" "RV0504";
    UNUSED 901 Warning "something that is declared and not used" "RV0901";
    UNREACHABLE 902 Warning "a step that never runs" "RV0902";
    POINTLESS 903 Warning "a setting that has no effect" "RV0903";
    CUT_SHORT 904 Warning "an effect that is cut short and asked about" "RV0904";
    INNER_PROGRAM 905 Warning "a value in a program within shell text" "RV0905";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_page_with_what_why_and_fix() {
        for entry in TABLE {
            let heading = format!("# {}: {}\n", entry.code, entry.title);
            assert!(
                entry.page.starts_with(&heading),
                "{} starts with its heading",
                entry.code
            );
            for part in ["## Why", "## Fix", "```yaml"] {
                assert!(entry.page.contains(part), "{} has `{part}`", entry.code);
            }
        }
    }

    #[test]
    fn codes_ascend_and_round_trip() {
        assert!(TABLE.windows(2).all(|pair| pair[0].code < pair[1].code));
        for entry in TABLE {
            assert_eq!(Code::from_text(&entry.code.to_string()), Some(entry.code));
        }
        assert_eq!(Code::from_text("RV9999"), None);
    }
}
