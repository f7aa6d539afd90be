//! What a provider bills for tokens: dated tables with their sources, and what an account comes to.
//!
//! Not here: anything an engine of one's own costs.

use serde::Serialize;

use crate::accounting::Account;

/// Prices of a million tokens, in thousandths of a dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Price {
    /// Whose.
    pub name: &'static str,
    /// As of when.
    pub date: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// Of a prompt, where nothing is cached.
    pub miss_millidollars: u64,
    /// Of a prompt that is written to a cache.
    pub write_millidollars: u64,
    /// Of a prompt found in one.
    pub read_millidollars: u64,
    /// Of an answer.
    pub answer_millidollars: u64,
}

/// The prices that the reference system's reports count with.
pub const PUBLISHED: Price = Price {
    name: "the reference system's cost model",
    date: "2026-07-02",
    source: "fanbench's cost model in its published reports: 3 dollars a million in, 15 out, reading at a tenth, writing at five quarters",
    miss_millidollars: 3000,
    write_millidollars: 3750,
    read_millidollars: 300,
    answer_millidollars: 15_000,
};

impl Price {
    /// What an account comes to, in millionths of a dollar, rounded down. Where a cache is kept, what is computed is written
    /// to it and what is found is read; else all of a prompt is a miss.
    pub fn microdollars(&self, account: &Account, keeps: bool) -> u128 {
        let bill = |tokens: u64, millidollars: u64| u128::from(tokens) * u128::from(millidollars);
        let prompts = if keeps {
            bill(account.computed_tokens, self.write_millidollars)
                + bill(account.reused_tokens, self.read_millidollars)
        } else {
            bill(account.prompt_tokens, self.miss_millidollars)
        };
        (prompts + bill(account.decode_tokens, self.answer_millidollars)) / 1000
    }

    /// Dollars, for people.
    pub fn dollars(microdollars: u128) -> f64 {
        microdollars as f64 / 1e6
    }

    /// Where it is from and how it is used, for people.
    pub fn words(&self) -> String {
        let dollars = |millidollars: u64| millidollars as f64 / 1000.0;
        format!(
            "QUOTED from {} of {} ({}): a million tokens of a prompt cost {} dollars, {} where they are written to a cache and {} where \
             they are found in one, of an answer {}. naive is billed as misses, the others as writes and reads.",
            self.name,
            self.date,
            self.source,
            dollars(self.miss_millidollars),
            dollars(self.write_millidollars),
            dollars(self.read_millidollars),
            dollars(self.answer_millidollars),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_writes_reads_and_answers_have_each_their_price() {
        let account = Account {
            prompt_tokens: 3_000_000,
            computed_tokens: 1_000_000,
            reused_tokens: 2_000_000,
            decode_tokens: 100_000,
            ..Account::default()
        };
        assert_eq!(
            PUBLISHED.microdollars(&account, false),
            9_000_000 + 1_500_000
        );
        let kept = 3_750_000 + 600_000 + 1_500_000;
        assert_eq!(PUBLISHED.microdollars(&account, true), kept);
        assert!((Price::dollars(kept) - 5.85).abs() < 1e-9);
    }
}
