//! Which positions run next: requests admitted in the order asked for, prompts in chunks, then one token per decoding request.
//!
//! A step runs prompts or decodes, never both, so that the two can be timed apart. Not here: running them (`engine`).

mod admission;
mod batch;
mod cache;
mod pins;
mod request;
mod sharing;

pub use admission::{Admission, Line};
pub use batch::{Batch, plan};
pub use cache::{Cache, Found, Wanted};
pub use pins::Origin;
pub use request::{Active, Request, check_prompt};
pub use sharing::CachePolicy;
