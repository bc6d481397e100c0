//! A campaign: family after family, round after round, until the commands are used up.
//!
//! A difference is made short and shown once. If it was in a reply, the round is run again and that
//! difference only counted, so that others behind it are found. If it was in the state, the rest
//! of the round would only repeat it, so the next one begins.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::differential::difference::{Difference, Stop};
use crate::differential::duel::Duel;
use crate::differential::families::Family;
use crate::differential::plan::{Grammar, Habits, Setting, Step, name_of};
use crate::differential::shrink::{Reproducer, shrink};

/// What a campaign tries.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The families.
    pub families: Vec<Family>,
    /// The seed.
    pub seed: u64,
    /// Commands for each family.
    pub commands: usize,
    /// The only round to run, if not all.
    pub round: Option<usize>,
    /// How rounds are planned.
    pub habits: Habits,
    /// Differences of a family after which the next one begins.
    pub differences_max: usize,
    /// Commands that are left out.
    pub skip: Vec<String>,
    /// The only commands to try, if not all.
    pub only: Vec<String>,
}

/// What a campaign found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// One for each difference.
    pub reproducers: Vec<Reproducer>,
    /// Replies compared.
    pub compared: usize,
    /// Commands that one server does not know: name and which of the two.
    pub unknown: BTreeSet<(usize, String)>,
    /// Rounds that ended early since both servers waited, and for what.
    pub both_waited: Vec<String>,
    /// Differences that were not seen again, as they were seen.
    pub unsteady: Vec<Difference>,
    /// How often each difference came after it was shown.
    pub counts: BTreeMap<String, usize>,
}

/// Times that one kind of difference in the state is made short; behind it may be several causes.
const SHRUNK_PER_STATE_MAX: usize = 4;

/// Times that a command may bring the states apart before it is left out.
const DIVERGED_MAX: usize = 3;

impl Campaign {
    /// Runs it. What happens is told to `say` as it happens.
    ///
    /// # Errors
    /// A server cannot be brought back.
    pub fn run(&self, duel: &mut Duel, say: &mut dyn FnMut(&str)) -> Result<Findings, String> {
        let mut findings = Findings::default();
        for family in &self.families {
            let mut hunt = Hunt {
                campaign: self,
                grammar: Grammar::of(*family),
                duel,
                findings: &mut findings,
                shrunk: BTreeMap::new(),
                diverged: BTreeMap::new(),
                shown: 0,
            };
            match hunt.run(say) {
                Err(Stop::Broken(text)) => return Err(text),
                Err(stop) => return Err(format!("{}: {stop:?}", family.name)),
                Ok(()) => {}
            }
        }
        findings.compared = duel.compared;
        findings.counts = duel.counts.clone();
        Ok(findings)
    }
}

/// One family of a campaign.
struct Hunt<'a> {
    campaign: &'a Campaign,
    grammar: Grammar,
    duel: &'a mut Duel,
    findings: &'a mut Findings,
    /// How often each kind of difference in the state was made short.
    shrunk: BTreeMap<String, usize>,
    /// How often a known difference of each command brought the states apart.
    diverged: BTreeMap<String, usize>,
    /// Differences of this family so far.
    shown: usize,
}

impl Hunt<'_> {
    fn run(&mut self, say: &mut dyn FnMut(&str)) -> Result<(), Stop> {
        let habits = &self.campaign.habits;
        let (setting, _) = Grammar::of(self.campaign.families[0]).plan(0, 0, habits);
        self.duel.prepare(setting)?;
        self.leave_out_unknown()?;
        let name = self.grammar.family_name();
        if self.grammar.is_empty() {
            say(&format!("{name}: one of the servers knows none of its commands"));
            return Ok(());
        }
        let before = self.duel.compared;
        let rounds = match self.campaign.round {
            Some(round) => round..round + 1,
            None => 0..self.campaign.commands.div_ceil(habits.commands),
        };
        for round in rounds {
            if self.shown >= self.campaign.differences_max {
                say(&format!("{name}: enough differences; the rest is left out"));
                break;
            }
            self.round(round, say)?;
        }
        let compared = self.duel.compared - before;
        say(&format!("{name}: {compared} replies compared, {} differences", self.shown));
        Ok(())
    }

    fn leave_out_unknown(&mut self) -> Result<(), Stop> {
        let mut out: BTreeSet<String> = self.campaign.skip.iter().cloned().collect();
        for name in self.grammar.names() {
            for side in 0..2 {
                if !self.duel.knows(side, &name)? {
                    out.insert(name.clone());
                    self.findings.unknown.insert((side, name.clone()));
                }
            }
        }
        let only = &self.campaign.only;
        self.grammar.retain(|name| {
            !out.contains(name) && (only.is_empty() || only.iter().any(|wanted| wanted == name))
        });
        Ok(())
    }

    /// Runs a round, again and again while it shows differences in replies that are new.
    fn round(&mut self, round: usize, say: &mut dyn FnMut(&str)) -> Result<(), Stop> {
        while self.shown < self.campaign.differences_max {
            let (setting, steps) =
                self.grammar.plan(self.campaign.seed, round, &self.campaign.habits);
            let difference = match self.duel.run(setting, &steps) {
                Ok(()) | Err(Stop::Known(_)) => return Ok(()),
                Err(Stop::BothWait(command)) => {
                    self.findings
                        .both_waited
                        .push(format!("{}, round {round}: {command}", self.grammar.family_name()));
                    return Ok(());
                }
                Err(Stop::Unknown { side, name }) => {
                    self.grammar.retain(|other| other != name);
                    self.findings.unknown.insert((side, name));
                    continue;
                }
                Err(Stop::Diverged(name)) => {
                    self.leave_out_diverging(&name, say);
                    return Ok(());
                }
                Err(Stop::Difference(difference)) => *difference,
                Err(broken) => return Err(broken),
            };
            // A server that is gone, or blocks where the other one does not, ends the round each time.
            if self.duel.known.contains(&difference.signature) {
                *self.duel.counts.entry(difference.signature).or_default() += 1;
                return Ok(());
            }
            let in_state = difference.in_state;
            self.show(round, setting, &steps, difference, say)?;
            if in_state {
                return Ok(());
            }
        }
        Ok(())
    }

    /// A command that brings the states apart again and again hides all others.
    fn leave_out_diverging(&mut self, name: &str, say: &mut dyn FnMut(&str)) {
        let diverged = self.diverged.entry(name.to_owned()).or_default();
        *diverged += 1;
        if *diverged == DIVERGED_MAX {
            self.grammar.retain(|other| other != name);
            let family = self.grammar.family_name();
            say(&format!(
                "{family}: {name} is left out from here on, since its known differences go on in the state"
            ));
        }
    }

    /// Makes a difference short and tells it, unless it is an old one.
    fn show(
        &mut self,
        round: usize,
        setting: Setting,
        steps: &[Step],
        difference: Difference,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), Stop> {
        if difference.in_state {
            let shrunk = self.shrunk.entry(difference.signature.clone()).or_default();
            *shrunk += 1;
            if *shrunk > SHRUNK_PER_STATE_MAX {
                *self.duel.counts.entry(difference.signature).or_default() += 1;
                return Ok(());
            }
        }
        let counts = (self.duel.counts.clone(), self.duel.compared);
        let found = shrink(self.duel, setting, steps, &difference)?;
        (self.duel.counts, self.duel.compared) = counts;
        let Some(mut found) = found else {
            self.tell_unsteady(round, steps, difference, say);
            return Ok(());
        };
        if difference.in_state {
            found.difference.signature.push_str(&format!(" after {}", cause(&found.steps)));
        }
        let signature = found.difference.signature.clone();
        if !self.duel.known.insert(signature.clone()) {
            *self.duel.counts.entry(signature).or_default() += 1;
            return Ok(());
        }
        self.shown += 1;
        say(&self.report(round, steps, &difference, &found));
        self.findings.reproducers.push(found);
        Ok(())
    }

    fn tell_unsteady(
        &mut self,
        round: usize,
        steps: &[Step],
        difference: Difference,
        say: &mut dyn FnMut(&str),
    ) {
        self.shown += 1;
        let labels = self.duel.labels();
        let mut text = self.heading(round, &difference.signature);
        text.push_str("  not seen again when the round was repeated; the last commands were:\n");
        push_steps(&mut text, last(steps, difference.at));
        push_sides(&mut text, labels, &difference);
        say(&text);
        self.duel.known.insert(difference.signature.clone());
        self.findings.unsteady.push(difference);
    }

    fn heading(&self, round: usize, signature: &str) -> String {
        let campaign = self.campaign;
        let protocol = campaign.habits.protocol.map_or("both".to_owned(), |one| one.to_string());
        format!(
            "DIFFERENCE {signature}\n  seen with --family {} --seed {} --round {round} --resp {protocol} \
             --multi {} --blocked {} --check-every {}\n",
            self.grammar.family_name(),
            campaign.seed,
            campaign.habits.multi,
            campaign.habits.blocked,
            campaign.habits.check_every,
        )
    }

    fn report(
        &self,
        round: usize,
        steps: &[Step],
        seen: &Difference,
        found: &Reproducer,
    ) -> String {
        let mut text = self.heading(round, &found.difference.signature);
        text.push_str("  the last commands before it was seen:\n");
        push_steps(&mut text, last(steps, seen.at));
        let fresh = match found.on_fresh_servers {
            true => "seen again on fresh servers",
            false => "NOT seen on fresh servers: it hangs on what ran before",
        };
        let Setting { level, protocol, pipeline, setup } = found.setting;
        let _ = writeln!(
            text,
            "  made short ({fresh}; thresholds {level:?}, RESP{protocol}, up to {pipeline} at once):",
        );
        setup.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
        push_steps(&mut text, &found.steps);
        push_sides(&mut text, self.duel.labels(), &found.difference);
        text
    }
}

/// Steps before a difference that are shown.
const LAST: usize = 5;

fn last(steps: &[Step], at: usize) -> &[Step] {
    let end = (at + 1).min(steps.len());
    &steps[end.saturating_sub(LAST)..end]
}

/// Longest line of a step.
const LINE_MAX: usize = 400;

fn push_steps(text: &mut String, steps: &[Step]) {
    for step in steps {
        let line = step.display();
        let cut = line.char_indices().nth(LINE_MAX).map_or(line.len(), |(at, _)| at);
        let rest = if cut < line.len() { "..." } else { "" };
        let _ = writeln!(text, "    {}{rest}", &line[..cut]);
    }
}

fn push_sides(text: &mut String, labels: [&str; 2], difference: &Difference) {
    let _ = writeln!(text, "  {}", difference.place);
    let width = labels[0].len().max(labels[1].len());
    for (label, side) in labels.into_iter().zip([&difference.left, &difference.right]) {
        let _ = writeln!(text, "    {label:width$}  {side}");
    }
}

/// The last command of a short sequence, which brought the state about.
fn cause(steps: &[Step]) -> String {
    steps.iter().rev().find_map(Step::words).map(|words| name_of(words)).unwrap_or_default()
}
