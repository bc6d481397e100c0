//! A differential tester: random commands go to two servers, and their answers are compared.
//!
//! ```text
//! families (rows of templates) + material (keys, members, numbers) --- plan ---> steps
//! steps --- duel ---> both servers;  rule, settle: do the replies agree?  check: does the state?
//! a difference --- shrink ---> a short sequence;  campaign repeats all this and reports
//! ```
//!
//! A round is planned from its seed alone and starts from emptied servers, so it can be repeated.
//! What is compared never hangs on the clock or on chance: times agree within a tolerance, and
//! where a server may choose, its choice is checked against the other one, which then follows it.

pub mod campaign;
pub mod check;
pub mod difference;
pub mod duel;
pub mod families;
pub mod grammar;
pub mod known;
pub mod material;
pub mod mutant;
pub mod patience;
pub mod plan;
pub mod reply;
pub mod rule;
pub mod server;
pub mod settle;
pub mod shrink;
pub mod side;
