//! Makes a sequence that shows a difference as short as it gets.
//!
//! Steps are dropped in ever smaller runs (delta debugging, after Zeller 1999), then words of the
//! steps that are left. A candidate counts only if it shows the same difference again, from emptied
//! servers. At the end the result is tried on servers that have just been started.

use std::time::Duration;

use crate::differential::difference::{Difference, Stop};
use crate::differential::duel::Duel;
use crate::differential::material::Level;
use crate::differential::patience::Patience;
use crate::differential::plan::{Setting, Step};

/// Time for making one sequence shorter.
const SHRINK_MAX: Duration = Duration::from_secs(60);

/// A short sequence that shows a difference.
#[derive(Clone, Debug)]
pub struct Reproducer {
    /// How the servers are set.
    pub setting: Setting,
    /// What is sent.
    pub steps: Vec<Step>,
    /// What it shows.
    pub difference: Difference,
    /// Whether servers that were just started show it too.
    pub on_fresh_servers: bool,
}

/// Makes `steps`, which showed this difference, short. Nothing comes if it is not seen again.
///
/// # Errors
/// The servers cannot be brought back.
pub fn shrink(
    duel: &mut Duel,
    setting: Setting,
    steps: &[Step],
    difference: &Difference,
) -> Result<Option<Reproducer>, Stop> {
    let mut known = std::mem::take(&mut duel.known);
    // The one in question must stop the run; what else is known must not.
    let was_known = known.remove(&difference.signature);
    duel.known = known;
    let mut shrinker =
        Shrinker { duel, patience: Patience::of(SHRINK_MAX), setting, target: difference.clone() };
    let result = shrinker.run(&steps[..=difference.at.min(steps.len() - 1)]);
    if was_known {
        duel.known.insert(difference.signature.clone());
    }
    result
}

struct Shrinker<'a> {
    duel: &'a mut Duel,
    patience: Patience,
    setting: Setting,
    target: Difference,
}

impl Shrinker<'_> {
    fn run(&mut self, steps: &[Step]) -> Result<Option<Reproducer>, Stop> {
        // A full check at the end is enough, where one was needed.
        let mut best: Vec<Step> =
            steps.iter().filter(|step| **step != Step::Check).cloned().collect();
        if !self.shows(&best)? {
            best = steps.to_vec();
            if !self.shows(&best)? {
                return Ok(None);
            }
        }
        best = self.drop_steps(best)?;
        best = self.drop_words(best)?;
        best = self.drop_steps(best)?;
        self.simplify_setting(&best)?;
        self.duel.restart().map_err(Stop::Broken)?;
        let on_fresh_servers = self.shows(&best)?;
        if self.target.in_state {
            best.push(Step::Check);
        }
        let difference = self.target.clone();
        Ok(Some(Reproducer { setting: self.setting, steps: best, difference, on_fresh_servers }))
    }

    /// Whether the steps show the difference; if so, how they show it is kept.
    fn shows(&mut self, steps: &[Step]) -> Result<bool, Stop> {
        self.shows_with(self.setting, steps)
    }

    fn shows_with(&mut self, setting: Setting, steps: &[Step]) -> Result<bool, Stop> {
        let mut steps = steps.to_vec();
        if self.target.in_state {
            steps.push(Step::Check);
        }
        match self.duel.run(setting, &steps) {
            Err(Stop::Difference(seen)) if seen.signature == self.target.signature => {
                self.target = *seen;
                Ok(true)
            }
            Err(Stop::Broken(text)) => Err(Stop::Broken(text)),
            _ => Ok(false),
        }
    }

    fn drop_steps(&mut self, mut steps: Vec<Step>) -> Result<Vec<Step>, Stop> {
        let mut run = steps.len().div_ceil(2).max(1);
        loop {
            let before = steps.len();
            let mut at = 0;
            while at < steps.len() && !self.patience.is_over() {
                let mut fewer = steps.clone();
                fewer.drain(at..(at + run).min(steps.len()));
                if !fewer.is_empty() && self.shows(&fewer)? {
                    steps = fewer;
                } else {
                    at += run;
                }
            }
            if self.patience.is_over() || (run == 1 && steps.len() == before) {
                return Ok(steps);
            }
            run = run.div_ceil(2).max(1);
        }
    }

    /// Drops single words and pairs of words.
    fn drop_words(&mut self, mut steps: Vec<Step>) -> Result<Vec<Step>, Stop> {
        for index in 0..steps.len() {
            for run in [8, 2, 1] {
                let mut at = 1;
                while steps[index].words().is_some_and(|words| at + run <= words.len()) {
                    let mut fewer = steps.clone();
                    if let Some(words) = fewer[index].words_mut() {
                        words.drain(at..at + run);
                    }
                    if !self.patience.is_over() && self.shows(&fewer)? {
                        steps = fewer;
                    } else {
                        at += 1;
                    }
                }
            }
        }
        Ok(steps)
    }

    /// Tries the usual thresholds, protocol and pipeline.
    fn simplify_setting(&mut self, steps: &[Step]) -> Result<(), Stop> {
        let now = self.setting;
        for simpler in [
            Setting { level: Level::Default, protocol: 2, pipeline: 1, ..now },
            Setting { protocol: 2, pipeline: 1, ..now },
            Setting { pipeline: 1, ..now },
        ] {
            if simpler != now && self.shows_with(simpler, steps)? {
                self.setting = simpler;
                return Ok(());
            }
        }
        Ok(())
    }
}
