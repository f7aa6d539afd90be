//! Requests of one trace, each with what was counted of it and when what happened.
//!
//! What a trace does not say is absent and never zero: an answer that came in one piece has no time to first token. Not here:
//! summing requests up (`workloads::summary`, `export`), or doubt about any of it (`audit`).

use std::collections::HashMap;

use workloads::trace::server::Answer;
use workloads::trace::{Body, Line};

/// One request and, where it came, its answer.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Unique in its trace.
    pub id: String,
    /// Whose transcript it continues.
    pub session: String,
    /// Who asks, from 0.
    pub agent: usize,
    /// The how manieth time, from 0.
    pub turn: usize,
    /// The process that served it, from 0.
    pub worker: usize,
    /// Positions of its prompt.
    pub prompt_len: usize,
    /// Positions of the prompt that were found in a cache.
    pub matched: Option<usize>,
    /// Client-supplied positions that were computed; of another engine all it computed, as it says itself.
    pub computed: Option<usize>,
    /// Sampled positions that were written only now.
    pub carried: Option<usize>,
    /// Positions run again for logits alone.
    pub replayed: Option<usize>,
    /// Pieces the prompt was computed in.
    pub chunks: Option<usize>,
    /// Tokens of the answer.
    pub output_tokens: Option<usize>,
    /// Why the answer ended.
    pub reason: Option<String>,
    /// When it was due, on the trace's clock; only where requests come by the clock.
    pub due_ns: Option<u64>,
    /// When it was handed over, on the trace's clock.
    pub submit_ns: u64,
    /// When its answer was whole, on the trace's clock.
    pub finish_ns: Option<u64>,
    /// From handing over to the first token.
    pub ttft_ns: Option<u64>,
    /// Mean time of each token after the first, rounded down.
    pub tpot_ns: Option<u64>,
    /// From handing over to the last token.
    pub e2e_ns: Option<u64>,
    /// Times between a token and the next; absent where tokens came together.
    pub gaps_ns: Option<Vec<u64>>,
}

/// Requests in the order they were made.
pub fn of(lines: &[Line]) -> Vec<Request> {
    let (mut requests, mut places) = (Vec::new(), HashMap::new());
    for line in lines {
        if let Some(request) = asked(line) {
            places.insert(request.id.clone(), requests.len());
            requests.push(request);
        } else if let Some(place) = named(&line.body).and_then(|name| places.get(name)) {
            settle(&mut requests[*place], line);
        }
    }
    requests
}

/// The request that `line` makes.
fn asked(line: &Line) -> Option<Request> {
    let Body::Request {
        id,
        session,
        agent,
        turn,
        worker,
        prompt_len,
        due_ns,
        ..
    } = &line.body
    else {
        return None;
    };
    Some(Request {
        id: id.clone(),
        session: session.clone(),
        agent: *agent,
        turn: *turn,
        worker: *worker,
        prompt_len: *prompt_len,
        due_ns: *due_ns,
        submit_ns: line.t_ns,
        ..Request::default()
    })
}

/// The request that a line is about.
fn named(body: &Body) -> Option<&str> {
    match body {
        Body::Prefix { request, .. }
        | Body::Prefill { request, .. }
        | Body::Finish { request, .. } => Some(request),
        Body::Answer(answer) => Some(&answer.request),
        _ => None,
    }
}

/// Takes down what a line says of a request.
fn settle(request: &mut Request, line: &Line) {
    match &line.body {
        Body::Prefix { matched, .. } => request.matched = Some(*matched),
        Body::Prefill {
            computed,
            carried,
            replayed,
            chunks,
            ..
        } => {
            request.computed = Some(*computed);
            request.carried = Some(*carried);
            request.replayed = Some(*replayed);
            request.chunks = Some(*chunks);
        }
        Body::Finish {
            ids,
            token_t_ns,
            reason,
            ..
        } => {
            let single = vec![1; token_t_ns.len()];
            arrive(request, token_t_ns, &single);
            request.output_tokens = Some(ids.len());
            request.reason = Some(reason.clone());
            request.finish_ns = Some(line.t_ns);
        }
        Body::Answer(answer) => answered(request, answer, line.t_ns),
        _ => {}
    }
}

fn answered(request: &mut Request, answer: &Answer, t_ns: u64) {
    request.matched = answer.cached;
    request.computed = answer.computed;
    request.output_tokens = Some(answer.ids.len());
    request.reason = Some(answer.reason.clone());
    request.finish_ns = Some(t_ns);
    arrive(request, &answer.chunk_t_ns, &answer.chunk_tokens);
}

/// Times of an answer out of when its pieces came and how many tokens each had.
fn arrive(request: &mut Request, piece_t_ns: &[u64], piece_tokens: &[usize]) {
    let (Some(&first_ns), Some(&last_ns)) = (piece_t_ns.first(), piece_t_ns.last()) else {
        return;
    };
    request.e2e_ns = Some(last_ns);
    if piece_tokens.first() != Some(&1) && piece_t_ns.len() == 1 {
        return; // the whole answer at once: nobody saw its first token
    }
    request.ttft_ns = Some(first_ns);
    let further: usize = piece_tokens.iter().skip(1).sum();
    request.tpot_ns = last_ns.saturating_sub(first_ns).checked_div(further as u64);
    if piece_tokens.iter().all(|&tokens| tokens == 1) {
        let pairs = piece_t_ns.windows(2);
        request.gaps_ns = Some(pairs.map(|it| it[1].saturating_sub(it[0])).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_one_piece_has_no_first_token_and_one_of_single_tokens_has_gaps() {
        let mut whole = Request::default();
        arrive(&mut whole, &[900], &[32]);
        assert_eq!(
            (whole.ttft_ns, whole.tpot_ns, whole.e2e_ns),
            (None, None, Some(900))
        );
        let mut single = Request::default();
        arrive(&mut single, &[100, 150, 250], &[1, 1, 1]);
        assert_eq!((single.ttft_ns, single.tpot_ns), (Some(100), Some(75)));
        assert_eq!(single.gaps_ns, Some(vec![50, 100]));
        let mut pieces = Request::default();
        arrive(&mut pieces, &[100, 400], &[2, 4]);
        assert_eq!((pieces.ttft_ns, pieces.tpot_ns), (Some(100), Some(75)));
        assert_eq!(pieces.gaps_ns, None, "tokens of a piece came together");
        let mut token = Request::default();
        arrive(&mut token, &[100], &[1]);
        assert_eq!((token.ttft_ns, token.tpot_ns), (Some(100), None));
    }
}
