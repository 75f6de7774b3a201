//! What a call used: disjoint token classes and integer micro-dollars. No I/O.

use ravel_core::effect::Usage;
use serde_json::Value;

use super::config::Prices;

/// Characters that are counted as one token where the provider reports nothing.
const CHARS_PER_TOKEN: u64 = 4;
/// Prices are per this many tokens.
const TOKENS_PER_PRICE: u128 = 1_000_000;

/// Tokens of a call, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) input: u64,
    pub(crate) cached: u64,
    pub(crate) output: u64,
}

impl Tokens {
    /// Reads a `usage` object. Providers count cached tokens within the prompt's; here they are taken out.
    pub(crate) fn reported(usage: &Value) -> Option<Self> {
        let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
        let prompt = count("/prompt_tokens").or_else(|| count("/input_tokens"))?;
        let output = count("/completion_tokens")
            .or_else(|| count("/output_tokens"))
            .unwrap_or(0);
        let cached = count("/prompt_tokens_details/cached_tokens")
            .or_else(|| count("/input_tokens_details/cached_tokens"))
            .or_else(|| count("/prompt_cache_hit_tokens"))
            .unwrap_or(0)
            .min(prompt);
        Some(Self {
            input: prompt - cached,
            cached,
            output,
        })
    }

    /// A guess from characters, rounded up.
    pub(crate) const fn estimated(prompt_chars: u64, answer_chars: u64) -> Self {
        Self {
            input: prompt_chars.div_ceil(CHARS_PER_TOKEN),
            cached: 0,
            output: answer_chars.div_ceil(CHARS_PER_TOKEN),
        }
    }

    /// The usage at these prices. The price is rounded up once, at the end; without prices it is 0.
    pub(crate) fn priced(self, prices: Option<&Prices>) -> Usage {
        Usage {
            input_tokens: self.input,
            cached_tokens: self.cached,
            output_tokens: self.output,
            cost_microusd: prices.map_or(0, |prices| self.cost(prices)),
        }
    }

    fn cost(self, prices: &Prices) -> u64 {
        let prompt = self.input + self.cached;
        let tier = prices
            .above
            .iter()
            .filter(|tier| prompt > tier.tokens)
            .max_by_key(|tier| tier.tokens);
        let (input, cached, output) = match tier {
            Some(tier) => (tier.input, tier.cached.unwrap_or(tier.input), tier.output),
            None => (
                prices.input,
                prices.cached.unwrap_or(prices.input),
                prices.output,
            ),
        };
        let part = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let sum = part(self.input, input) + part(self.cached, cached) + part(self.output, output);
        u64::try_from(sum.div_ceil(TOKENS_PER_PRICE)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::config::Tier;
    use super::*;

    fn prices() -> Prices {
        Prices {
            version: "t1".to_owned(),
            input: 2_500_000,
            cached: Some(250_000),
            output: 10_000_000,
            above: vec![
                Tier {
                    tokens: 272_000,
                    input: 5_000_000,
                    cached: None,
                    output: 15_000_000,
                },
                Tier {
                    tokens: 500_000,
                    input: 6_000_000,
                    cached: Some(1),
                    output: 1,
                },
            ],
        }
    }

    #[test]
    fn cached_tokens_are_not_billed_as_input_too() {
        let tokens = Tokens::reported(&json!({
            "prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306,
            "prompt_tokens_details": { "cached_tokens": 1920 }
        }))
        .unwrap();
        // 86 × 2.5 + 1,920 × 0.25 + 300 × 10 = 3,695 micro-dollars.
        let expected = Usage {
            input_tokens: 86,
            cached_tokens: 1920,
            output_tokens: 300,
            cost_microusd: 3_695,
        };
        assert_eq!(tokens.priced(Some(&prices())), expected);
    }

    #[test]
    fn a_part_of_a_micro_dollar_is_rounded_up_once() {
        let tokens = Tokens {
            input: 1,
            cached: 1,
            output: 0,
        };
        assert_eq!(tokens.priced(Some(&prices())).cost_microusd, 3);
        assert_eq!(Tokens::default().priced(Some(&prices())).cost_microusd, 0);
    }

    #[test]
    fn the_tier_follows_from_all_prompt_tokens() {
        let at = Tokens {
            input: 200_000,
            cached: 72_000,
            output: 10,
        };
        assert_eq!(
            at.priced(Some(&prices())).cost_microusd,
            500_000 + 18_000 + 100
        );
        let above = Tokens {
            cached: 72_001,
            ..at
        };
        assert_eq!(
            above.priced(Some(&prices())).cost_microusd,
            1_000_000 + 360_005 + 150
        );
    }

    #[test]
    fn other_shapes_of_usage_are_read_and_nonsense_is_not() {
        let hit =
            json!({ "prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 99 });
        assert_eq!(
            Tokens::reported(&hit),
            Some(Tokens {
                input: 0,
                cached: 10,
                output: 2
            })
        );
        let other = json!({ "input_tokens": 10, "output_tokens": 2 });
        assert_eq!(
            Tokens::reported(&other),
            Some(Tokens {
                input: 10,
                cached: 0,
                output: 2
            })
        );
        assert_eq!(Tokens::reported(&json!(null)), None);
        assert_eq!(
            Tokens::estimated(9, 0),
            Tokens {
                input: 3,
                cached: 0,
                output: 0
            }
        );
    }
}
