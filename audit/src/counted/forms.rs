//! Sessions and tasks by closed form: C agents, T turns, prefix P, D decoded and R result tokens a turn.
//!
//! A modelled cache keeps every token that was said, so a prompt's tokens are either found or computed. Not here: streams.

use super::{Counts, Session, Task};

/// The arms, and how many caches each has for so many agents of so many workers; none for `naive`.
const ARMS: [(&str, Caches); 4] = [
    ("naive", Caches::None),
    ("agent-kv", Caches::ByAgent),
    ("instance-shared", Caches::ByWorker),
    ("fused", Caches::One),
];

#[derive(Clone, Copy)]
enum Caches {
    None,
    ByAgent,
    ByWorker,
    One,
}

/// Sums wide enough to be checked at the end.
#[derive(Clone, Copy, Default)]
struct Wide {
    requests: u128,
    logical: u128,
    computed: u128,
    decoded: u128,
    attended: u128,
    held: u128,
}

/// C, T, P, D, R and W in 128 bits.
#[derive(Clone, Copy)]
struct Shape {
    agents: u128,
    turns: u128,
    prefix: u128,
    decode: u128,
    result: u128,
    workers: u128,
}

/// The counts of a session, which one worker serves; `None` beyond 64 bits.
pub(super) fn session(session: &Session) -> Option<Vec<(&'static str, Counts)>> {
    let shape = Shape {
        agents: session.agents.into(),
        turns: session.turns.into(),
        prefix: session.prefix.into(),
        decode: session.decode.into(),
        result: session.result.into(),
        workers: 1,
    };
    let of_arm = |(arm, caches)| Some((arm, shape.counts(caches)?.narrow()?));
    ARMS.into_iter().map(of_arm).collect()
}

/// The counts of all tasks, with so many agents on each, every one of a worker of its own. Caches end with their task, so of
/// what they hold the most counts, not the sum.
pub(super) fn tasks(tasks: &[Task], workers: u64) -> Option<Vec<(&'static str, Counts)>> {
    let of_arm = |(arm, caches)| {
        let mut sum = Wide::default();
        for task in tasks {
            let shape = Shape {
                agents: workers.into(),
                turns: task.turns.into(),
                prefix: task.prefix.into(),
                decode: task.decode.into(),
                result: task.result.into(),
                workers: workers.into(),
            };
            sum = sum.and(&shape.counts(caches)?, task.count.into())?;
        }
        Some((arm, sum.narrow()?))
    };
    ARMS.into_iter().map(of_arm).collect()
}

impl Shape {
    fn counts(&self, caches: Caches) -> Option<Wide> {
        let Self {
            agents,
            turns,
            prefix,
            decode,
            result,
            workers,
        } = *self;
        let later = turns.checked_sub(1)?;
        let grown = decode.checked_add(result)?;
        let requests = agents.checked_mul(turns)?;
        // Of each agent: T·P + (D + R)·T(T - 1)/2.
        let pairs = turns.checked_mul(later)? / 2;
        let prompts = turns
            .checked_mul(prefix)?
            .checked_add(grown.checked_mul(pairs)?)?;
        let logical = prompts.checked_mul(agents)?;
        let own = turns
            .checked_mul(decode)?
            .checked_add(later.checked_mul(result)?)?;
        let results = agents.checked_mul(later)?.checked_mul(result)?;
        let shared = match caches {
            Caches::None => None,
            Caches::ByAgent => Some(agents),
            Caches::ByWorker => Some(workers.min(agents)),
            Caches::One => Some(1),
        };
        let wide = Wide {
            requests,
            logical,
            decoded: requests.checked_mul(decode)?,
            ..Wide::default()
        };
        Some(if let Some(shared) = shared {
            // Each token is written once: a prefix by each cache, what follows it by each agent.
            let prefixes = shared.checked_mul(prefix)?;
            let behind = triangle(prefix.checked_add(own)?)? - triangle(prefix)?;
            let attended = shared.checked_mul(triangle(prefix)?)?;
            Wide {
                computed: prefixes.checked_add(results)?,
                attended: attended.checked_add(agents.checked_mul(behind)?)?,
                held: prefixes.checked_add(agents.checked_mul(own)?)?,
                ..wide
            }
        } else {
            Wide {
                computed: logical,
                attended: agents.checked_mul(self.attended_from_nothing()?)?,
                ..wide
            }
        })
    }

    /// Positions that an agent attends to which computes its whole context in every turn: the sum over turns t of 1 to
    /// L(t) = P + D + t(D + R).
    fn attended_from_nothing(&self) -> Option<u128> {
        let (first, step) = (
            self.prefix.checked_add(self.decode)?,
            self.decode.checked_add(self.result)?,
        );
        let last = self.turns.checked_sub(1)?;
        // Sums over t of 1, t and t².
        let (ones, firsts) = (self.turns, self.turns.checked_mul(last)? / 2);
        let odd = last.checked_mul(2)?.checked_add(1)?;
        let squares = self.turns.checked_mul(last)?.checked_mul(odd)? / 6;
        // L(t)² + L(t), summed, and halved once at the end.
        let squared = first.checked_mul(first)?.checked_mul(ones)?;
        let mixed = first
            .checked_mul(step)?
            .checked_mul(2)?
            .checked_mul(firsts)?;
        let stepped = step.checked_mul(step)?.checked_mul(squares)?;
        let plain = first
            .checked_mul(ones)?
            .checked_add(step.checked_mul(firsts)?)?;
        let sum = squared.checked_add(mixed)?.checked_add(stepped)?;
        Some(sum.checked_add(plain)? / 2)
    }
}

/// 1 + 2 + ... + n.
fn triangle(n: u128) -> Option<u128> {
    Some(n.checked_mul(n.checked_add(1)?)? / 2)
}

impl Wide {
    /// Adds so many others alike.
    fn and(&self, other: &Self, times: u128) -> Option<Self> {
        let sum = |a: u128, b: u128| a.checked_add(b.checked_mul(times)?);
        Some(Self {
            requests: sum(self.requests, other.requests)?,
            logical: sum(self.logical, other.logical)?,
            computed: sum(self.computed, other.computed)?,
            decoded: sum(self.decoded, other.decoded)?,
            attended: sum(self.attended, other.attended)?,
            held: self.held.max(other.held),
        })
    }

    fn narrow(&self) -> Option<Counts> {
        let narrow = |wide: u128| u64::try_from(wide).ok();
        Some(Counts {
            requests: narrow(self.requests)?,
            prefill_tokens_logical: narrow(self.logical)?,
            prefill_tokens_computed: narrow(self.computed)?,
            prefix_tokens_hit: narrow(self.logical.checked_sub(self.computed)?)?,
            decode_tokens: narrow(self.decoded)?,
            attended_positions: narrow(self.attended)?,
            held_tokens_peak: narrow(self.held)?,
        })
    }
}
